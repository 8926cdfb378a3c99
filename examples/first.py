"""Three agents work on one long report and pass a ref instead of the text.

Runs on a store of its own, in a temporary folder: no service, no key, no network.
"""

from __future__ import annotations

import tempfile
import time

from contextrelay import Gone, Relay

REPORT = "\n".join(
    f"{hour:02d}:{minute:02d} orders-service {'ERROR timeout' if minute == 42 else 'INFO ok'}"
    for hour in range(24)
    for minute in range(60)
)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, Relay(folder) as relay:
        start = time.perf_counter()
        log = relay.push(REPORT, name="orders.log", metadata={"summary": "a day of orders"})
        print(f"collector  stored {log.size_bytes:,} bytes once: {log.ref}")

        described = relay.peek(log.ref)
        print(f"analyst    peeked: {described.type}, {described.preview.line_count:,} lines,")
        print(f"           {described.metadata['summary']!r}; no content was loaded")

        tail = relay.pull(log.ref, start=log.size_bytes - 60).decode()
        summary = relay.push(
            f"24 timeouts, one an hour, always at :42. Last lines:\n{tail}",
            name="summary.md",
            created_by="analyst",
            source_refs=(log.ref,),
            ttl_s=None,
        )
        print(f"analyst    read the last 60 bytes and stored a summary: {summary.ref}")

        again = relay.push(REPORT, created_by="archivist")
        kept = relay.survey()
        print(f"archivist  stored the same log: {kept.artifacts} refs, {kept.bodies} bodies kept")

        relay.remove(again.ref)
        try:
            relay.pull(again.ref)
        except Gone as gone:
            print(f"archivist  removed it; asking again says: {gone.details['reason']}")

        lineage = relay.lineage(log.ref)
        print(f"manager    what was made from the log: {lineage.derived == [summary.ref]}")
        print(f"           every hash is right: {relay.verify().problem_count == 0}")
        pasted, sent = 3 * log.size_bytes, 3 * len(log.ref) + 60 + summary.size_bytes
        print(f"\npasted into three prompts {pasted:,} bytes, with refs {sent:,}")
        print(f"all of it took {(time.perf_counter() - start) * 1000:.0f} ms")
        print("\nnext: relay push FILE · relay peek @last · relay help")


if __name__ == "__main__":
    main()
