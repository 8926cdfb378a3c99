"""The public names, pinned: changing one is changing everybody's code."""

from __future__ import annotations

import subprocess
import sys

import contextrelay
from contextrelay.client.thread import AsyncThread, Thread


def test_the_public_names_are_these() -> None:
    assert sorted(contextrelay.__all__) == [
        "AgentBridge",
        "Artifact",
        "AsyncRelay",
        "Block",
        "Broken",
        "Budget",
        "BudgetTooSmall",
        "Conflict",
        "ContextRelay",
        "Failed",
        "Forbidden",
        "Full",
        "Gone",
        "Invalid",
        "Limited",
        "NotFound",
        "Package",
        "Pipeline",
        "Preview",
        "Provenance",
        "Refused",
        "Relay",
        "RelayError",
        "Sealed",
        "Settings",
        "TooLarge",
        "Unavailable",
        "Unconfirmed",
        "capability",
        "pack",
    ]


def test_every_public_name_can_be_had_and_no_other() -> None:
    for name in contextrelay.__all__:
        assert getattr(contextrelay, name).__name__ == name
    assert not hasattr(contextrelay, "Nothing")


def test_the_verbs_of_both_clients_are_these() -> None:
    verbs = {"backup", "close", "extend", "find", "list", "peek", "pin", "pull", "push"}
    verbs |= {
        "abandon_restore",
        "push_many",
        "remove",
        "restore",
        "stream",
        "survey",
        "sweep",
        "lineage",
        "verify",
    }
    verbs |= {"find_threads", "import_thread", "current_thread", "new_thread", "thread"}
    verbs |= {"threads", "unpin", "use_thread"}
    verbs |= {"slice", "grep", "diff", "outline", "digest"}
    verbs |= {"search", "rebuild_search", "savings"}
    verbs |= {"accept", "give_back", "handoff", "handoffs"}
    verbs |= {"capabilities", "invoke", "purge_cache"}
    verbs |= {"keys", "new_key", "revoke_key", "usage"}
    verbs |= {"channels", "handle", "once", "publish", "signals", "subscribe", "wait"}

    for client in (contextrelay.Relay, contextrelay.AsyncRelay):
        names = {name for name in dir(client) if not name.startswith("_")}
        assert names - {"is_async", "over_transport"} == verbs


def test_the_verbs_of_both_thread_handles_are_these() -> None:
    verbs = {"adopt", "add_event", "artifacts", "ask", "checkpoint", "close", "compact", "diff"}
    verbs |= {"events", "export", "fork", "header", "history", "mirror", "patch", "put", "remove"}
    verbs |= {"add_constraint", "add_decision", "add_fact", "add_question", "add_step", "resolve"}
    verbs |= {"hand_off", "invoke", "once", "pack", "restore", "show", "state", "stats", "tail"}

    verbs |= {"add_blocks", "prune", "run", "replay", "run_stream", "trace", "send_to"}

    for handle in (Thread, AsyncThread):
        names = {name for name in dir(handle) if not name.startswith("_")}
        assert names - {"is_async", "over_transport"} == verbs


def test_importing_loads_nothing_until_a_name_is_used() -> None:
    code = "import sys, contextrelay; print(sorted(m for m in sys.modules if 'relay' in m))"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "['contextrelay']"


def test_a_client_that_reads_does_not_load_what_guesses_types() -> None:
    """Its patterns take longer to compile than most requests to answer."""
    code = (
        "import sys; from contextrelay import Relay; Relay('memory:').list();"
        " print('contextrelay.content.sniff' in sys.modules)"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "False"


def test_a_client_that_pushes_does_not_load_what_runs_models() -> None:
    code = (
        "import sys; from contextrelay import Relay; Relay('memory:').push('x');"
        " late = ('runs.run', 'runs.trace', 'runs.replay');"
        " print([m for m in sys.modules if 'client.run' in m or m.endswith(late)])"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


def test_a_client_needs_no_network_and_no_heavy_module() -> None:
    """Promise G1: no network traffic unless it is asked for."""
    code = (
        "import sys; from contextrelay import Relay; r = Relay('memory:');"
        "r.pull(r.push('x').ref); print(sorted(set(sys.modules)"
        " & {'asyncio', 'socket', 'ssl', 'redis', 'tarfile', 'argparse', 'urllib.request'}))"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
