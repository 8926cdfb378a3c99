"""Verbs: every request that a relay answers, grouped by noun; all can be imported from here.

Rule: this is the only definition. The client methods, the HTTP codec, the schemas and `--json` are
derived from it. Bodies travel next to a verb, never inside it. To add a verb, add a class to one
of these files and a function in core that answers it.
"""

# A class is exported because it is defined in one of these modules: no list of names to maintain.
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
