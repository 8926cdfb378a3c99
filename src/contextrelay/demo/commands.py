"""demo: see it work, offline, without a key, in seconds.

Rule: all it makes is one thread, made by `relay demo` and called demo-...; `--clean` removes these.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Iterable, Sequence
from itertools import accumulate
from pathlib import Path
from statistics import median

from msgspec import Struct

from contextrelay.cli import display
from contextrelay.cli.console import Console
from contextrelay.cli.parser import arg, one_of, takes
from contextrelay.cli.thread_argument import VARIABLE
from contextrelay.client.thread import Thread
from contextrelay.client.transport.local import default_address
from contextrelay.content.tokens import TOKENIZER_DEFAULT, count_tokens
from contextrelay.demo import agents
from contextrelay.demo.agents import Sent, Team, script
from contextrelay.demo.documents import NAMES, document
from contextrelay.errors import Invalid, RelayError
from contextrelay.limits import LIST_ITEMS_MAX
from contextrelay.model.run import Tokens
from contextrelay.runs.prices import PRICES_DATE, price, prices_here
from contextrelay.runs.providers.anthropic import MODEL
from contextrelay.verbs import ReadState

NAME, MADE_BY = "demo-orders", "relay demo"
OLD_VERSION = 7
_WAKES = 5
_ROWS = 6
_COLUMNS_A_HOP = 2
_WAIT_S = 20


class Outcome(Struct, frozen=True, kw_only=True):
    """What the demo did and measured."""

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
    price_pasted: str
    """Of the input, in US dollars, without a prompt cache."""
    price_sent: str
    price_pasted_cached: str
    """With a cache: what the hop before has pasted is read from it."""
    price_sent_cached: str
    """With a cache: hardly anything is sent twice, so that there is nothing to read."""
    wake_ms: float
    is_identical: bool
    """Whether an old version read here, and in another process, is the same bytes."""
    is_restored: bool
    took_s: float


@takes(
    one_of(
        arg("--clean", action="store_true", help="remove what demos have made"),
        arg("--show-code", action="store_true", help="print the code of the agents"),
    )
)
def demo(args: Namespace, console: Console) -> None:
    """Let three scripted agents work on one incident: refs against pasting, and time travel."""
    if args.clean:
        removed = _remove_made_by(console, MADE_BY)
        text = f"removed {display.count(len(removed), 'demo thread')}, with all they held"
        console.answer({"removed": removed}, text, "\n".join(removed))
    elif args.show_code:
        code = Path(agents.__file__).read_text(encoding="utf-8")
        console.answer({"code": code}, code.rstrip("\n"))
    else:
        _play(console)


def _remove_made_by(console: Console, maker: str) -> list[str]:
    removed: list[str] = []
    after = ""
    while True:
        page = console.relay.threads(LIST_ITEMS_MAX, after)
        for view in page.threads:
            if view.created_by.startswith(maker) and (view.name or "").startswith("demo-"):
                Thread(console.relay, view.thread_id).remove()
                removed.append(view.thread_id)
        after = page.next
        if not after:
            return removed


def _play(console: Console) -> None:
    started = time.perf_counter()
    if (console.address or default_address()).startswith("memory:"):
        raise Invalid("a demo in memory: cannot be looked at afterwards", "use --store FOLDER")
    maker = f"{MADE_BY} {os.urandom(4).hex()}"
    try:
        with console.busy("three agents at work"):
            outcome, lines = _act(console, console.relay.new_thread(NAME, maker), started)
    except BaseException:
        # Found by its maker: the interrupt may have come before we knew the thread.
        _remove_made_by(console, maker)
        raise
    console.answer(outcome, lines)
    if not (outcome.is_identical and outcome.is_restored):
        raise RelayError("the demo did not come out right", "relay doctor; relay verify")


def _act(console: Console, thread: Thread, started: float) -> tuple[Outcome, list[str]]:
    """Let the agents act, measure, and say what came of it."""
    team = Team(thread)
    sent = [team.act(hop) for hop in script()]
    acted = time.perf_counter()
    head = thread.show()
    wake_ms = _wake_ms(console, thread, head.events)
    is_identical = _is_identical(console, thread)
    is_restored = _is_restored(thread, head.version)
    size_bytes = sum(len(document(name).encode()) for name in NAMES)
    outcome = Outcome(
        thread_id=thread.id,
        name=NAME,
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
        price_pasted_cached=_price(
            Tokens(
                input=each.pasted_tokens,
                cache_read=each.repeated_tokens,
                cache_write=each.pasted_tokens - each.repeated_tokens,
            )
            for each in sent
        ),
        price_sent_cached=price_sent,
        wake_ms=wake_ms,
        is_identical=is_identical,
        is_restored=is_restored,
        took_s=time.perf_counter() - started,
    )
    return outcome, _lines(console, outcome, sent, acted - started)


def _price(calls: Iterable[Tokens]) -> str:
    """What reading some prompts costs, in US dollars."""
    prices = prices_here(os.environ)
    every = [price(tokens, MODEL, prices) for tokens in calls]
    return f"{sum(each for each in every if each is not None):.4f}"


# What is measured with another process


def _relay(console: Console, *words: str) -> list[str]:
    """The command line in another process; -P: no module of this folder gets into its way."""
    store = ["--store", console.store] if console.store else []
    return [sys.executable, "-P", "-m", "contextrelay", *store, "--json", *words]


def _about(thread: Thread) -> dict[str, str]:
    """The thread by variable: one that is named would be the last used one from then on."""
    return {**os.environ, VARIABLE: thread.id}


def _wake_ms(console: Console, thread: Thread, newest: int) -> float:
    """How long after a commit here a listener in another process has the event."""
    words = _relay(console, "tail", "--after", str(newest - 1), "--timeout", str(_WAIT_S))
    with subprocess.Popen(words, stdout=subprocess.PIPE, env=_about(thread)) as listener:
        assert listener.stdout is not None
        try:
            listener.stdout.readline()  # It is there: this one had happened before.
            took_ms: list[float] = []
            for number in range(_WAKES):
                time.sleep(0.03)
                thread.checkpoint(f"wake {number + 1}", by=MADE_BY)
                committed = time.perf_counter()
                if not listener.stdout.readline():
                    raise RelayError("the listener heard nothing", "relay doctor")
                took_ms.append((time.perf_counter() - committed) * 1000)
        finally:
            listener.terminate()
    return round(median(took_ms), 1)


def _is_identical(console: Console, thread: Thread) -> bool:
    """Whether an old version is the same bytes here, here again, and in another process."""
    words = _relay(console, "state", "show", f"v{OLD_VERSION}")
    elsewhere = subprocess.run(words, capture_output=True, timeout=_WAIT_S, env=_about(thread))
    here = [bytes(thread.ask(ReadState(thread.id, OLD_VERSION)).state) for _ in range(2)]
    return here[0] == here[1] == elsewhere.stdout.rstrip(b"\n")


def _is_restored(thread: Thread, newest: int) -> bool:
    """Go back to an old version and forth again, each as a new version."""
    back = thread.restore(OLD_VERSION, by=MADE_BY)
    is_back = not thread.diff(OLD_VERSION, back.version).operations
    forth = thread.restore(newest, by=MADE_BY)
    return is_back and not thread.diff(newest, forth.version).operations


# What is printed


def _lines(console: Console, outcome: Outcome, sent: list[Sent], acted_s: float) -> list[str]:
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
        f"       tokens sent to the model in all          if pasted {outcome.pasted_tokens:,} ─",
        *plot([each.pasted_tokens for each in sent], [each.relay_tokens for each in sent]),
        f"       hop 1 … {outcome.hops:<24}with relay {outcome.sent_tokens:,} ━  {kept}",
        f"       {f'input at {outcome.price_model}':32}if pasted  with relay",
        _priced("without a prompt cache", outcome.price_pasted, outcome.price_sent),
        _priced("with one", outcome.price_pasted_cached, outcome.price_sent_cached),
        f"       [{outcome.basis}; prices of {PRICES_DATE}. Pasted: all documents and",
        "       messages so far, every hop. With relay: headers, previews, what was pulled back]",
        "",
        f"took {outcome.took_s:.1f} s. Try next:",
        f"  {relay} state header {NAME}",
        f"  {relay} state diff v{OLD_VERSION} v{OLD_VERSION + 3} --thread {NAME}",
        f"  {relay} report {NAME} --format html -o demo.html",
        f"The code: {relay} demo --show-code. Remove it all: {relay} demo --clean",
    ]


def _priced(what: str, pasted: str, sent: str) -> str:
    return f"         {what:30}{f'${pasted}':>9}  {f'${sent}':>10}"


def _mark(is_so: bool, word: str) -> str:
    return f"{word} ✔" if is_so else "NO ✗"


def _program(console: Console) -> str:
    """How to call this command line again, as it was called now."""
    ours, found = Path(sys.argv[0]), shutil.which("relay")
    is_found = found is not None and Path(found).resolve() == ours.resolve()
    words = "relay" if is_found or ours.name != "relay" else shlex.quote(str(ours))
    return f"{words} --store {shlex.quote(console.store)}" if console.store else words


def plot(pasted: Sequence[int], sent: Sequence[int]) -> list[str]:
    """Draw what was spent up to each hop: the upper line pasted, the lower one with refs."""
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
    """A line that climbs: flat, the corner below, the corner above, and between them."""
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
