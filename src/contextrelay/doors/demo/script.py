"""The script: what the demo's agents are asked, look at and answer, hop by hop.

A hop is one call of a model. Its answer is a patch: entries for the state, written as

    fact KEY TEXT · constraint SEVERITY TEXT · question TEXT · step TEXT · decision TEXT
    resolved ID · done ID
"""

from __future__ import annotations

from typing import NamedTuple


class Look(NamedTuple):
    """A slice that an agent pulls: so many bytes of a document, from where a text is."""

    document: str
    begins_with: str
    size_bytes: int


class Hop(NamedTuple):
    """One call of one agent."""

    agent: str
    asked: str
    answer: tuple[tuple[str, ...], ...]
    looks: tuple[Look, ...] = ()
    brings: str = ""
    """A document that comes into the thread with this hop."""
    writes: tuple[str, str] | None = None
    """A new artifact: its name and its text."""


_FIX = """--- a/checkout.ts
+++ b/checkout.ts
@@ async function sendOnce
-    headers: { "Idempotency-Key": requestKey(order, attempt, startedAt) },
+    headers: { "Idempotency-Key": requestKey(order, attempt) },
@@ function requestKey
-function requestKey(order: Order, attempt: number, startedAt: number): string {
-  return `charge:${order.id}:${attempt}:${startedAt}`;
+function requestKey(order: Order, attempt: number): string {
+  return `charge:${order.id}:${attempt}`;
 }
"""
_TEST = """test("a retry after a timeout carries the key of the first request", async () => {
  const seen: string[] = [];
  gateway.post = async (_, request) => {
    seen.push(request.headers["Idempotency-Key"]);
    if (seen.length === 1) throw new GatewayError({ isTimeout: true });
    return { state: "approved", gatewayId: "ch_1" };
  };
  await charge(order("ord_7331"), 1, heldLease());
  expect(seen).toEqual(["charge:ord_7331:1", "charge:ord_7331:1"]);
});
"""
_LETTER = """Eleven customers were charged twice on Monday between 09:28 and 10:25: orders 7331,
7338, 7344, 7352, 7359, 7367, 7373, 7380, 7388, 7395 and 7401. The cause is found and mended. The
second charge is refunded through the gateway; four refunds were made by hand on Tuesday and are not
made again.
"""

HOPS: tuple[Hop, ...] = (
    Hop(
        "intent",
        "What is asked of us?",
        (
            ("fact", "goal", "Find out why customers pay twice, fix it, show it, count them"),
            ("constraint", "hard", "No card data in tickets, logs or prompts"),
            ("constraint", "hard", "Refunds only through the gateway"),
        ),
        brings="notes.md",
    ),
    Hop(
        "intent",
        "What else must not happen?",
        (
            ("constraint", "hard", "No migration that locks charges: 80 million rows"),
            ("constraint", "soft", "Payments at most 50 ms slower"),
        ),
        (Look("notes.md", "## What we are not allowed to do", 460),),
    ),
    Hop(
        "intent",
        "What do we not know?",
        (
            ("question", "Did release 41 change the idempotency key?"),
            ("question", "Does it need the slow gateway, or the release, or both?"),
            ("question", "Which orders were charged twice?"),
        ),
    ),
    Hop(
        "planner",
        "What does the specification demand?",
        (("fact", "spec.key", "The key is charge:<order>:<attempt>; a retry has the same one"),),
        (Look("spec.md", "## 6 Retries", 1_500),),
        brings="spec.md",
    ),
    Hop(
        "planner",
        "What does the gateway do with a key?",
        (("fact", "gateway.key", "Equal keys within 24 hours are one charge"),),
        (Look("spec.md", "- It charges when it answers", 620),),
    ),
    Hop(
        "planner",
        "Make a plan.",
        (
            ("step", "Read how checkout.ts makes its key"),
            ("step", "Find a retry in the worker's log"),
            ("step", "Compare with what the gateway saw"),
            ("step", "Write the fix and a test"),
            ("step", "Count the orders, write to support"),
        ),
    ),
    Hop(
        "coder",
        "Read the code.",
        (("fact", "code.key", "requestKey adds startedAt: every try has a key of its own"),),
        (Look("checkout.ts", "/** One request to the gateway. */", 950),),
        brings="checkout.ts",
    ),
    Hop(
        "coder",
        "Is that what the row says?",
        (("fact", "row.key", "newRow stores charge:<order>:<attempt>, without startedAt"),),
        (Look("checkout.ts", "function newRow", 290),),
    ),
    Hop("coder", "Then step one is done.", (("done", "s1"), ("resolved", "q1"))),
    Hop(
        "planner",
        "What follows?",
        (("fact", "suspicion", "Any retry after an answer that was only late is a second charge"),),
    ),
    Hop(
        "coder",
        "Find a retry in the log.",
        (("fact", "log.first", "09:30:55 order 7331: timeout after 5000 ms, then approved"),),
        (Look("worker.log", "09:30:50", 420),),
        brings="worker.log",
    ),
    Hop("coder", "How often?", (("fact", "log.retries", "Eleven retries that morning, no other"),)),
    Hop("coder", "When does it end?", (("fact", "log.last", "The last one is order 7401"),)),
    Hop("planner", "So step two is done.", (("done", "s2"),)),
    Hop(
        "coder",
        "What did the gateway see?",
        (("fact", "gateway.7331", "Two approved charges, keys that differ in the last part"),),
        (Look("gateway.json", '"reference": "ord_7331"', 430),),
        brings="gateway.json",
    ),
    Hop(
        "coder",
        "And an order without a retry?",
        (("fact", "gateway.7332", "One charge, one key"),),
        (Look("gateway.json", '"reference": "ord_7332"', 190),),
    ),
    Hop("coder", "Step three is done.", (("done", "s3"),)),
    Hop(
        "planner",
        "The release, or the slow gateway?",
        (("resolved", "q2"), ("fact", "cause", "Both: a late answer, and a key that changes")),
    ),
    Hop(
        "planner",
        "Would a longer timeout do?",
        (("decision", "Do not raise the timeout: it hides the cause and slows payments"),),
        (Look("notes.md", "- Somebody suggested", 230),),
    ),
    Hop(
        "planner",
        "What is the fix?",
        (("decision", "Make the key from order and attempt alone, as the row has it"),),
    ),
    Hop(
        "coder", "Write it.", (("fact", "fix", "fix.diff, five lines"),), writes=("fix.diff", _FIX)
    ),
    Hop(
        "coder",
        "Write a test that failed before.",
        (("fact", "test", "retry.test.ts: two tries, one key"),),
        writes=("retry.test.ts", _TEST),
    ),
    Hop("coder", "Step four is done.", (("done", "s4"),)),
    Hop("intent", "Does the fix keep the constraints?", (("fact", "check", "No migration, 0 ms"),)),
    Hop("intent", "May it be deployed now?", (("question", "Deploy before 17:00 on Wednesday?"),)),
    Hop(
        "planner",
        "When are deploys allowed?",
        (("fact", "deploy", "08:00 to 17:00, not on Friday; rolling, 40 s apart"),),
        (Look("spec.md", "## 11 Running it", 330),),
    ),
    Hop("intent", "Then yes.", (("resolved", "q4"),)),
    Hop(
        "planner",
        "Why did the alert not fire?",
        (("fact", "alert", "It counts rows, and there is one; it must count what was sent"),),
        (Look("spec.md", "Alerts: a charge", 330),),
    ),
    Hop(
        "planner", "Do something about it.", (("step", "Let the alert count the gateway's export"),)
    ),
    Hop(
        "coder",
        "List the orders.",
        (("resolved", "q3"), ("fact", "orders", "7331 7338 7344 7352 7359 7367 7373 7380 7388")),
    ),
    Hop("coder", "All of them.", (("fact", "orders.more", "7395 7401; eleven in all"),)),
    Hop(
        "intent",
        "Write to support.",
        (("fact", "letter", "letter.md: eleven orders, four refunded already"),),
        writes=("letter.md", _LETTER),
    ),
    Hop("intent", "Is anything open?", (("done", "s5"),)),
    Hop(
        "planner",
        "Who looks after the alert?",
        (("decision", "The orders team mends it this week"),),
    ),
    Hop(
        "intent", "Close it.", (("fact", "outcome", "Cause found, fix and test written, 11 told"),)
    ),
)
