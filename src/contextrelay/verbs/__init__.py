"""Verbs: everything that can be asked of a relay, by noun; all of them can be imported from here.

Rule: this is the only definition. The clients' methods, the HTTP codec, schemas and `--json` are
read from it. Bodies travel next to a verb, never inside it. A new verb is a class in one of these
files and a function in core that answers it.
"""

# A class is exported by being defined in one of these: there is no list of names to keep.
# ruff: noqa: F403
from contextrelay.verbs.access import *
from contextrelay.verbs.accounting import *
from contextrelay.verbs.artifacts import *
from contextrelay.verbs.capabilities import *
from contextrelay.verbs.channels import *
from contextrelay.verbs.inspect import *
from contextrelay.verbs.maintenance import *
from contextrelay.verbs.packing import *
from contextrelay.verbs.pipelines import *
from contextrelay.verbs.runs import *
from contextrelay.verbs.state import *
from contextrelay.verbs.threads import *
from contextrelay.verbs.transfer import *
from contextrelay.verbs.verb import *
