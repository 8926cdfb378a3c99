"""The command demo, its documents and its agents. Three documents are files next to this one, two
are generated.

Rule: the same bytes on every machine. The log and the gateway's export show one morning: 180
orders are charged, the gateway is slow for a while, and eleven customers pay twice.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib import resources
from itertools import accumulate, count
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from msgspec import Struct, to_builtins
from msgspec.json import decode, encode

from contextrelay.cli import display
from contextrelay.cli.console import Console
from contextrelay.cli.parser import arg, arguments, one_of
from contextrelay.client.thread import Thread
from contextrelay.client.transport.local import default_address
from contextrelay.content.tokens import TOKENIZER_DEFAULT, count_tokens
from contextrelay.content.untrusted.fence import fence
from contextrelay.documents.patch import Operation
from contextrelay.errors import Invalid, RelayError
from contextrelay.limits import LIST_ITEMS_MAX
from contextrelay.model.artifact import Artifact
from contextrelay.model.run import Tokens
from contextrelay.runs.prices import PRICES_DATE, price, prices_here
from contextrelay.runs.providers.anthropic import MODEL
from contextrelay.state import schema as states
from contextrelay.verbs import ReadState

NAMES = ("notes.md", "spec.md", "checkout.ts", "worker.log", "gateway.json")
ORDERS = 180
DOUBLE_CHARGED = (31, 38, 44, 52, 59, 67, 73, 80, 88, 95, 101)
_START_MS = (9 * 60 + 12) * 60_000
_SLOW = range(26, 108)


def document(name: str) -> str:
    """Return the text of a document."""
    if name == "worker.log":
        return "".join(f"{line}\n" for line in _log())
    if name == "gateway.json":
        return json.dumps({"export": "charges", "day": "Monday", "charges": _charges()}, indent=1)
    return (resources.files("contextrelay.demo") / "documents" / name).read_text(encoding="utf-8")


class GatewayRequest(NamedTuple):
    """One request to the gateway, as both sides recorded it."""

    order: str
    try_index: int
    sent_ms: int
    took_ms: int
    is_answered: bool
    amount: int
    method: str


def requests() -> Iterator[GatewayRequest]:
    """Yield every request of the morning, in order."""
    dice = _Random(41)
    now_ms = _START_MS
    for number in range(ORDERS):
        now_ms += 15_000 + dice.below(45_000)
        order = f"ord_{7_300 + number}"
        amount, method = 900 + dice.below(24_000), ("card", "card", "card", "wallet")[dice.below(4)]
        if number in DOUBLE_CHARGED:
            # The gateway charges, but its response arrives after our timeout.
            yield GatewayRequest(order, 0, now_ms, 5_400 + dice.below(2_300), False, amount, "card")
            took_ms = 320 + dice.below(900)
            yield GatewayRequest(order, 1, now_ms + 5_200, took_ms, True, amount, "card")
        else:
            slow_ms = dice.below(3_200) if number in _SLOW else 0
            took_ms = 140 + dice.below(260) + slow_ms
            yield GatewayRequest(order, 0, now_ms, took_ms, True, amount, method)


class _Random:
    """A deterministic pseudo-random generator."""

    def __init__(self, seed: int) -> None:
        self._last = seed

    def below(self, bound: int) -> int:
        self._last = (self._last * 1_103_515_245 + 12_345) % 2**31
        return (self._last >> 8) % bound


def _clock(at_ms: int) -> str:
    seconds, milliseconds = divmod(at_ms, 1_000)
    minutes, second = divmod(seconds, 60)
    return f"{minutes // 60:02}:{minutes % 60:02}:{second:02}.{milliseconds:03}"


def _log() -> Iterator[str]:
    yield f"{_clock(_START_MS - 90_000)} INFO  release 41 starts, 3 workers, lease 30 s"
    for index, each in enumerate(requests()):
        worker = f"worker-{1 + int(each.order[-4:]) % 3}"
        head = f"{worker} order={each.order} try={each.try_index}"
        at_ms = each.sent_ms
        if each.try_index == 0:
            yield f"{_clock(at_ms - 40)} INFO  charge.begin    {head} amount={each.amount}"
        if each.is_answered:
            done = f"{_clock(at_ms + each.took_ms)}"
            yield f"{done} INFO  charge.answer   {head} ms={each.took_ms} state=approved"
            yield f"{done} INFO  charge.decided  {head} state=approved rows=1"
        else:
            late = _clock(at_ms + 5_000)
            yield f"{late} WARN  charge.retry    {head} error=timeout after 5000 ms"
        if index % 40 == 39:
            yield f"{_clock(at_ms + 9_000)} INFO  lease.renewed   {worker} orders=3"
    yield f"{_clock(_START_MS + 7_300_000)} INFO  orders.events   published=360 lag_ms=12"


def _charges() -> list[dict[str, Any]]:
    return [
        {
            "id": f"ch_{90_000 + index}",
            "reference": each.order,
            "key": f"charge:{each.order}:1:{each.sent_ms}",
            "amount": each.amount,
            "method": each.method,
            "state": "approved",
            "received_at": _clock(each.sent_ms + 60),
        }
        for index, each in enumerate(requests())
    ]


class DemoSlice(Struct, frozen=True):
    """A slice that an agent pulls: bytes of a document, starting at a text."""

    document: str
    begins_with: str
    size_bytes: int


class Hop(Struct, frozen=True):
    """One call of an agent, whose answer is a patch: entries for the state, written as

    fact KEY TEXT · constraint SEVERITY TEXT · question TEXT · step TEXT · decision TEXT
    resolved ID · done ID
    """

    agent: str
    asked: str
    answer: tuple[tuple[str, ...], ...]
    looks: tuple[DemoSlice, ...] = ()
    brings: str = ""  # A document that this hop adds to the thread.
    writes: tuple[str, str] | None = None  # A new artifact: its name and its text.


@cache
def script() -> tuple[Hop, ...]:
    """Return what the agents are asked, read and answer, hop by hop."""
    return decode(document("script.json"), type=tuple[Hop, ...])


class HopCost(NamedTuple):
    """The cost of one hop, in tokens."""

    pasted_tokens: int  # With every document and every earlier message in the prompt.
    relay_tokens: int  # Header, previews of new artifacts, and slices.
    pulled_tokens: int  # The slices only.
    repeated_tokens: int
    """The part of the pasted prompt that the previous hop sent too: a prompt cache may hold it."""

    @property
    def pasted_with_cache(self) -> Tokens:
        new = self.pasted_tokens - self.repeated_tokens
        read = self.repeated_tokens
        return Tokens(input=self.pasted_tokens, cache_read=read, cache_write=new)


class Team:
    """The agents' thread, and what each of them has seen."""

    def __init__(self, thread: Thread) -> None:
        self.thread = thread
        self._stored: dict[str, Artifact] = {}
        # The pasted texts, kept in memory: a pull would count as one of the agents'.
        self._texts: dict[str, str] = {}
        self._seen: set[tuple[str, str]] = set()
        self._transcript: list[str] = []
        self._counts: dict[str, int] = {}
        self._tokens: dict[str, int] = {}
        self._pasted_before = 0

    def act(self, hop: Hop) -> HopCost:
        """Run one hop: add its document, read, answer with a patch, count."""
        if hop.brings:
            self._put(hop.brings, document(hop.brings), "")
        header = self.thread.header()
        slices = [self._pull(look) for look in hop.looks]
        prompt = [hop.asked, encode(header).decode(), *self._new_previews(hop.agent), *slices]
        pasted = self._count([*self._texts.values(), *self._transcript])

        operations = [self._operation(*entry) for entry in hop.answer]
        patch: list[dict[str, Any]] = to_builtins(operations)
        self.thread.patch(patch, by=hop.agent)
        if hop.writes:
            self._put(*hop.writes, hop.agent)
        self._transcript += [hop.asked, encode(patch).decode()]
        repeated, self._pasted_before = self._pasted_before, pasted
        asked = self._count([hop.asked])
        return HopCost(pasted + asked, self._count(prompt), self._count(slices), repeated)

    def _count(self, texts: list[str]) -> int:
        for text in texts:
            if text not in self._tokens:
                self._tokens[text] = count_tokens(text)
        return sum(self._tokens[text] for text in texts)

    def _put(self, name: str, text: str, by: str) -> None:
        self._stored[name] = self.thread.put(text, name=name, created_by=by)
        self._texts[name] = text

    def _pull(self, look: DemoSlice) -> str:
        """Pull a slice by byte range. The script knows where to look; an agent would search."""
        start = document(look.document).encode().index(look.begins_with.encode())
        ref = self._stored[look.document].ref
        body = self.thread.relay.pull(ref, start, start + look.size_bytes)
        return body.decode(errors="replace")

    def _new_previews(self, agent: str) -> list[str]:
        """Return the previews that this agent has not seen, fenced as untrusted."""
        new = [each for name, each in self._stored.items() if (agent, name) not in self._seen]
        self._seen |= {(agent, name) for name in self._stored}
        return [fence(self.thread.relay.peek(artifact.ref)) for artifact in new]

    def _operation(self, kind: str, *words: str) -> Operation:
        match kind:
            case "fact":
                return states.fact(words[0], words[1], self._next("f"))
            case "constraint":
                return states.constraint(words[1], self._next("c"), words[0])
            case "question":
                return states.question(words[0], self._next("q"))
            case "step":
                return states.step(words[0], self._next("s"))
            case "decision":
                evidence = [self._stored[name].ref for name in ("checkout.ts", "worker.log")]
                return states.decision(words[0], self._next("d"), (), evidence, 0.9)
            case "resolved":
                return Operation("replace", f"/open_questions/{_index(words[0])}/status", kind)
            case _:
                return Operation("replace", f"/plan/{_index(words[0])}/status", "done")

    def _next(self, letter: str) -> str:
        self._counts[letter] = self._counts.get(letter, 0) + 1
        return f"{letter}{self._counts[letter]}"


def _index(id: str) -> int:
    return int(id[1:]) - 1


NAME, MADE_BY = "demo-orders", "relay demo"
OLD_VERSION = 7
_WAKES = 5
_ROWS = 6
_COLUMNS_A_HOP = 2
_WAIT_S = 20


class DemoOutcome(Struct, frozen=True, kw_only=True):
    """The results of the demo."""

    thread_id: str
    name: str
    documents: int
    size: int
    document_tokens: int
    hops: int
    versions: int
    pasted_tokens: int
    sent_tokens: int
    pulled_tokens: int
    slices: int
    basis: str = f"measured: {TOKENIZER_DEFAULT}"
    price_model: str = MODEL
    price_pasted: str  # Price of the input in US dollars, without a prompt cache.
    price_sent: str
    price_pasted_cached: str  # With a cache: the part that the previous hop pasted is read from it.
    price_sent_cached: str
    """With a cache: hardly anything is sent twice, so there is little to read."""
    wake_ms: float
    is_identical: bool  # Whether an old version is identical here and in another process.
    is_restored: bool
    took_s: float


@arguments(
    one_of(
        arg("--clean", action="store_true", help="remove the threads of earlier demos"),
        arg("--show-code", action="store_true", help="print the code of the agents"),
    )
)
def demo(args: Namespace, console: Console) -> None:
    """Run three scripted agents on one incident: tokens with refs and pasted, and time travel."""
    if args.clean:
        removed = _remove_made_by(console, MADE_BY)
        text = f"removed {display.count(len(removed), 'demo thread')} with all their contents"
        console.answer({"removed": removed}, text, "\n".join(removed))
    elif args.show_code:
        code = Path(__file__).read_text(encoding="utf-8")
        console.answer({"code": code}, code.rstrip("\n"))
    else:
        _play(console)


def _remove_made_by(console: Console, maker: str) -> list[str]:
    removed: list[str] = []
    after = ""
    while True:
        page = console.relay.threads(LIST_ITEMS_MAX, after)
        for view in page.threads:
            if maker in view.created_by and (view.name or "").startswith("demo-"):
                Thread(console.relay, view.thread_id).remove()
                removed.append(view.thread_id)
        after = page.next
        if not after:
            return removed


def _play(console: Console) -> None:
    started = time.perf_counter()
    if (console.address or default_address()).startswith("memory:"):
        raise Invalid("a demo in memory cannot be inspected afterwards", "use --store FOLDER")
    maker = f"{MADE_BY} {os.urandom(4).hex()}"
    try:
        with console.busy("running three agents"):
            thread = console.relay.new_thread(_free_name(console), maker)
            outcome, lines = _act(console, thread, started)
    except BaseException:
        # Found by its creator: the interrupt may have come before the thread was known.
        _remove_made_by(console, maker)
        raise
    console.answer(outcome, lines)
    if not (outcome.is_identical and outcome.is_restored):
        raise RelayError("the demo failed its own checks", "relay doctor; relay verify")


def _free_name(console: Console) -> str:
    """Return a name that no thread has, so that the printed commands are about this demo."""
    for number in count(1):
        name = NAME if number == 1 else f"{NAME}-{number}"
        if not console.relay.find_threads(name):
            return name
    raise AssertionError


def _act(console: Console, thread: Thread, started: float) -> tuple[DemoOutcome, list[str]]:
    """Run the agents, measure, and return the results and the printed lines."""
    team = Team(thread)
    sent = [team.act(hop) for hop in script()]
    acted = time.perf_counter()
    head = thread.show()
    wake_ms = _wake_ms(console, thread, head.events)
    is_identical = _is_identical(console, thread)
    is_restored = _is_restored(thread, head.version)
    size_bytes = sum(len(document(name).encode()) for name in NAMES)
    outcome = DemoOutcome(
        thread_id=thread.id,
        name=head.name or thread.id,
        documents=len(NAMES),
        size=size_bytes,
        document_tokens=sum(count_tokens(document(name)) for name in NAMES),
        hops=len(script()),
        versions=thread.show().version,
        pasted_tokens=sum(each.pasted_tokens for each in sent),
        sent_tokens=sum(each.relay_tokens for each in sent),
        pulled_tokens=sum(each.pulled_tokens for each in sent),
        slices=sum(len(hop.looks) for hop in script()),
        price_pasted=_price(Tokens(input=each.pasted_tokens) for each in sent),
        price_sent=(price_sent := _price(Tokens(input=each.relay_tokens) for each in sent)),
        price_pasted_cached=_price(each.pasted_with_cache for each in sent),
        price_sent_cached=price_sent,
        wake_ms=wake_ms,
        is_identical=is_identical,
        is_restored=is_restored,
        took_s=time.perf_counter() - started,
    )
    return outcome, _lines(console, outcome, sent, acted - started)


def _price(calls: Iterable[Tokens]) -> str:
    prices = prices_here(os.environ)
    every = [price(tokens, MODEL, prices) for tokens in calls]
    return f"{sum(each for each in every if each is not None):.4f}"


# Measurements with a second process


def _relay(console: Console, *words: str) -> list[str]:
    """Return the command line for another process; -P: modules in this folder are not imported."""
    store = ["--store", console.store] if console.store else []
    return [sys.executable, "-P", "-m", "contextrelay", *store, "--json", *words]


def _wake_ms(console: Console, thread: Thread, newest: int) -> float:
    """Return the time from a commit here until a listener in another process has the event."""
    after = str(newest - 1)
    words = _relay(console, "tail", thread.id, "--after", after, "--timeout", str(_WAIT_S))
    with subprocess.Popen(words, stdout=subprocess.PIPE) as listener:
        assert listener.stdout is not None
        try:
            listener.stdout.readline()  # The listener is ready: this event was already there.
            took_ms: list[float] = []
            for number in range(_WAKES):
                time.sleep(0.03)
                thread.checkpoint(f"wake {number + 1}", by=MADE_BY)
                committed = time.perf_counter()
                if not listener.stdout.readline():
                    raise RelayError("the listener received nothing", "relay doctor")
                took_ms.append((time.perf_counter() - committed) * 1000)
        finally:
            listener.terminate()
    return round(median(took_ms), 1)


def _is_identical(console: Console, thread: Thread) -> bool:
    """Return True if an old version is identical when read twice here and in another process."""
    words = _relay(console, "state", "show", f"{thread.id}@v{OLD_VERSION}")
    elsewhere = subprocess.run(words, capture_output=True, timeout=_WAIT_S)
    here = [bytes(thread.ask(ReadState(thread.id, OLD_VERSION)).state) for _ in range(2)]
    return here[0] == here[1] == elsewhere.stdout.rstrip(b"\n")


def _is_restored(thread: Thread, newest: int) -> bool:
    """Restore an old version, then the newest, each as a new version; return True if they match."""
    back = thread.restore(OLD_VERSION, by=MADE_BY)
    is_back = not thread.diff(OLD_VERSION, back.version).operations
    forth = thread.restore(newest, by=MADE_BY)
    return is_back and not thread.diff(newest, forth.version).operations


# Printed output


def _lines(
    console: Console, outcome: DemoOutcome, sent: list[HopCost], acted_s: float
) -> list[str]:
    stored = f"{outcome.documents} documents, {display.size(outcome.size)}"
    slices = f"{outcome.slices} slices pulled by byte range ({outcome.pulled_tokens:,} tok)"
    newest = outcome.versions - 2
    share = 1 - outcome.sent_tokens / outcome.pasted_tokens
    kept = console.bold(f"{share:.1%} fewer")
    team = " → ".join(dict.fromkeys(hop.agent for hop in script()))
    identical = _mark(outcome.is_identical, "identical")
    travelled = f"{identical}; restored: {_mark(outcome.is_restored, 'equal')}"
    relay = _program(console)
    return [
        f"1/4 stored       {stored}, {outcome.document_tokens:,} tok, each once",
        f"2/4 agents       {team}, {outcome.hops} hops; {slices}  {acted_s:.2f} s",
        f"3/4 signals      a listener in another process woke after {outcome.wake_ms:.1f} ms",
        f"4/4 time travel  v{OLD_VERSION} ↔ v{newest}, read in two processes: {travelled}",
        "",
        f"       tokens sent to the model in total        if pasted {outcome.pasted_tokens:,} ─",
        *plot([each.pasted_tokens for each in sent], [each.relay_tokens for each in sent]),
        f"       hop 1 … {outcome.hops:<24}with relay {outcome.sent_tokens:,} ━  {kept}",
        f"       {f'input at {outcome.price_model}':32}if pasted  with relay",
        _priced("without a prompt cache", outcome.price_pasted, outcome.price_sent),
        _priced("with one", outcome.price_pasted_cached, outcome.price_sent_cached),
        f"       [{outcome.basis}; prices of {PRICES_DATE}. Pasted: all documents and",
        "       messages so far, every hop. With relay: headers, previews, pulled slices]",
        "",
        f"took {outcome.took_s:.1f} s. Try next:",
        f"  {relay} state header {outcome.name}",
        f"  {relay} state diff v{OLD_VERSION} v{OLD_VERSION + 3} --thread {outcome.name}",
        f"  {relay} report {outcome.name} --format html -o demo.html",
        f"The code: {relay} demo --show-code. Remove it all: {relay} demo --clean",
    ]


def _priced(what: str, pasted: str, sent: str) -> str:
    return f"         {what:30}{f'${pasted}':>9}  {f'${sent}':>10}"


def _mark(is_so: bool, word: str) -> str:
    return f"{word} ✔" if is_so else "NO ✗"


def _program(console: Console) -> str:
    """Return the command to call this command line again, as it was called now."""
    ours, found = Path(sys.argv[0]), shutil.which("relay")
    is_found = found is not None and Path(found).resolve() == ours.resolve()
    words = "relay" if is_found or ours.name != "relay" else shlex.quote(str(ours))
    return f"{words} --store {shlex.quote(console.store)}" if console.store else words


def plot(pasted: Sequence[int], sent: Sequence[int]) -> list[str]:
    """Plot the total tokens after each hop: pasted above, with refs below."""
    upper, lower = list(accumulate(pasted)), list(accumulate(sent))
    top = max(upper[-1], 1)
    high = [_row(value, top) for value in upper for _ in range(_COLUMNS_A_HOP)]
    low = [_row(value, top) for value in lower for _ in range(_COLUMNS_A_HOP)]
    grid = [[" "] * len(high) for _ in range(_ROWS + 1)]
    _draw(grid, high, "─╯╭│")
    _draw(grid, low, "━┛┏┃")
    lines: list[str] = []
    for row in range(_ROWS, -1, -1):
        label = f"{top * row / _ROWS / 1000:.0f}k" if row % (_ROWS // 2) == 0 else ""
        axis = "┼" if row == 0 else "┤" if label else "│"
        lines.append(f"{label:>6} {axis}{''.join(grid[row]).rstrip()}")
    return lines


def _row(value: int, top: int) -> int:
    return round(value / top * _ROWS)


def _draw(grid: list[list[str]], rows: list[int], signs: str) -> None:
    """Draw a rising line: flat parts, lower and upper corners, and verticals between them."""
    flat, below, above, between = signs
    last = rows[0]
    for column, row in enumerate(rows):
        if row == last:
            grid[row][column] = flat
        else:
            grid[last][column] = below
            grid[row][column] = above
            for passed in range(last + 1, row):
                grid[passed][column] = between
        last = row
