"""Verbs: everything that can be asked of a relay, by noun; all of them can be imported from here.

Rule: this is the only definition. The clients' methods, the HTTP codec, schemas and `--json` are
read from it. Bodies travel next to a verb, never inside it. A new verb is a class in one of these
files and a function in core that answers it.
"""

# A class is exported by being defined in one of these: there is no list of names to keep.
# ruff: noqa: F403
from contextrelay.wire.verbs.access import *
from contextrelay.wire.verbs.accounting import *
from contextrelay.wire.verbs.artifacts import *
from contextrelay.wire.verbs.capabilities import *
from contextrelay.wire.verbs.channels import *
from contextrelay.wire.verbs.inspect import *
from contextrelay.wire.verbs.maintenance import *
from contextrelay.wire.verbs.packing import *
from contextrelay.wire.verbs.pipelines import *
from contextrelay.wire.verbs.runs import *
from contextrelay.wire.verbs.state import *
from contextrelay.wire.verbs.threads import *
from contextrelay.wire.verbs.transfer import *
from contextrelay.wire.verbs.verb import *
