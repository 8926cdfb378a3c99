"""A sub-agent: a planner hands a task to a coder in another process, and waits for the result.

The coder gets what it needs to know within 300 tokens and no more; what it made comes back into the
planner's thread as one patch. Both find each other by channels; no server is needed.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile

from contextrelay import Relay


def coder(store: str) -> None:
    """Wait for one handoff, do what it asks, and give back what came of it."""
    with Relay(store) as relay:
        heard = relay.wait("handoff/coder", after=0, timeout_s=60).signals[0]
        taken = relay.accept(heard.ref or "", by="coder")
        print("coder reads", taken.text.count("\n") + 1, "lines:", taken.handoff.ask, flush=True)
        # A real one would ask its model here, with taken.text as the prompt.
        script = "ALTER TABLE orders ADD COLUMN payload jsonb;\n"
        relay.give_back(script, taken.ref, name="migration.sql", by="coder")


def planner(store: str) -> None:
    with Relay(store) as relay:
        thread = relay.new_thread("orders", by="planner")
        fact = {"id": "f1", "key": "database", "value": "orders live in PostgreSQL 16"}
        thread.patch([{"op": "add", "path": "/facts/-", "value": fact}], by="planner")

        given = thread.hand_off("coder", "Write the migration", budget_tokens=300, by="planner")
        back = relay.wait("handoff/planner", after=0, timeout_s=60).signals[0]

        view = relay.handoff(given.ref)
        print("planner gets", relay.peek(view.returned[0]).name, "from", view.accepted[0].by)
        print("in its state:", thread.state()["artifacts"][-1]["name"])
        assert view.returned == (back.ref,)


def main() -> None:
    with tempfile.TemporaryDirectory() as store:
        helper = subprocess.Popen([sys.executable, __file__, store])
        try:
            planner(store)
            helper.wait(60)
        finally:
            helper.kill()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        coder(sys.argv[1])
    else:
        main()
