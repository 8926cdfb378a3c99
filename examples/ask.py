"""A model works on a thread, and what it did is read back, checked and asked of another model.

The model is `echo`, which plays a script: no key, no network. With a key it would be
`thread.run("...", model="anthropic")`, and all the rest the same.
"""

from __future__ import annotations

import tempfile

from contextrelay import Relay
from contextrelay.runs.providers.echo import Echo, ScriptedCall, ScriptLine

LOG = "\n".join(
    f"{hour:02d}:{minute:02d} orders-service {'ERROR timeout' if minute == 42 else 'INFO ok'}"
    for hour in range(24)
    for minute in range(60)
)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, Relay(folder) as relay:
        thread = relay.new_thread("orders")
        log = thread.put(LOG, name="orders.log")

        looks = ScriptedCall("relay_get", {"ref": log.ref, "grep": "ERROR", "tokens_max": 200})
        notes = ScriptedCall("relay_state", {"facts": [{"text": "one timeout an hour, at :42"}]})
        model = Echo(
            script=[
                ScriptLine("Let me look.", (looks, notes)),
                ScriptLine("A job at :42 blocks it."),
            ]
        )
        for piece in thread.run_stream("why do orders time out?", model):
            print(piece, end="")

        trace = thread.trace()
        (run,) = trace.runs
        whole = relay.peek(log.ref, is_full=True).tokens
        print(f"\n\nit took {len(run.calls)} calls, {run.usage.tokens_in:,} tokens in;")
        print(f"the log alone, pasted into both, would have been {2 * (whole or 0):,}")
        for call in run.calls:
            tools = ", ".join(tool.name for tool in call.tools) or "no tools"
            print(f"  call {call.round}: {call.usage.tokens_in:,} in, {tools}")
        print(f"noted: {thread.state()['facts'][0]['value']}")

        replay = thread.replay()
        print(f"\nreplayed by the record: the states are equal: {replay.is_equal}")
        again = thread.replay(model=Echo("another"))
        answers = again.runs[0]
        assert answers.old_ref is not None
        assert answers.new_ref is not None
        print("asked of another model, the answer differs:")
        print(relay.diff(answers.old_ref, answers.new_ref).text)

        relay.remove(log.ref)
        diverged = thread.replay(is_dry=True).diverged
        assert diverged is not None
        print(f"without the log it diverges: round {diverged.round}, {diverged.tool}")


if __name__ == "__main__":
    main()
