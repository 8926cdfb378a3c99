"""Promises: everything Context Relay promises, as data, each with the tests that keep it.

A promise is one of:

    kept      the tests named here keep all of it
    partly    the tests named here keep some of it; `missing` says what is not there
    not yet   nothing keeps it
    changed   we promise something else instead; `why` says what and why

A test names its promise in its docstring ("Promise R9." or "Promises R6, R9: ..."), and a promise
names its tests; test_promises.py holds the two together. `python -m tests.promises` prints the
table, and `python -m tests.promises --tests` every test that names a promise.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeGuard

ROOT = Path(__file__).parents[1]

Status = Literal["kept", "partly", "not yet", "changed"]


@dataclass(frozen=True, slots=True)
class Promise:
    """One promise: what it says, in short, and how far it is kept."""

    id: str
    text: str
    status: Status
    tests: tuple[str, ...] = ()
    """Node ids without parameters: "tests/core/test_sweep.py::test_expiry_frees_bytes"."""
    missing: str = ""
    why: str = ""


def kept(id: str, text: str, *tests: str) -> Promise:
    return Promise(id, text, "kept", tests)


def partly(id: str, text: str, *tests: str, missing: str) -> Promise:
    return Promise(id, text, "partly", tests, missing=missing)


def not_yet(id: str, text: str) -> Promise:
    return Promise(id, text, "not yet")


def changed(id: str, text: str, *tests: str, why: str) -> Promise:
    return Promise(id, text, "changed", tests, why=why)


SECTIONS: Mapping[str, tuple[str, int]] = {
    "R": ("Relay: push once, pass a ref", 15),
    "E": ("Encryption", 5),
    "S": ("Signals", 6),
    "T": ("Threads and state", 11),
    "A": ("Artifacts", 5),
    "L": ("Looking inside a ref without loading it", 6),
    "C": ("Capabilities, cache, hops", 3),
    "X": ("Running models and agents", 5),
    "K": ("Packing a window and handing off", 8),
    "J": ("Project files", 7),
    "M": ("Protocols", 3),
    "H": ("Coding agents", 4),
    "I": ("Frameworks", 1),
    "G": ("Engines and platforms", 4),
    "Z": ("Access and limits", 4),
    "U": ("Insight", 4),
}
"""The letter of a promise, what it stands for, and how many promises there are under it."""

PROMISES: tuple[Promise, ...] = (
    # R  Relay
    not_yet("R1", "POST /push takes JSON and answers url, id, channel; ids are lower-case UUIDv4"),
    not_yet("R2", "a body of any other type is the data itself; bytes that are no UTF-8 come back"),
    not_yet("R3", "GET /pull answers data and metadata; ?raw=1 the bare bytes, ETag, Range, HEAD"),
    not_yet("R4", "an unknown or expired ref is a 404 with a fixed text; asked fully, a tombstone"),
    not_yet("R5", "the texts of 400; odd metadata and channels are ignored"),
    not_yet("R6", "leases: a day by default, ttl, pins; expiry frees bytes, leaves a tombstone"),
    not_yet("R7", "peek: metadata alone at a cost that does not grow; full: all but the body"),
    not_yet("R8", "a body over 50 MiB is refused at once, without reading it all"),
    not_yet("R9", "equal content is stored once and freed with its last ref"),
    not_yet("R10", "class ContextRelay: push, pull, peek, subscribe, publish; its key stays home"),
    not_yet("R11", "the TypeError and ValueError texts of ContextRelay"),
    not_yet("R12", "the published client 0.2.0 works unmodified against our server"),
    not_yet("R13", "GET / says that it runs; a browser is sent to /ui/"),
    not_yet("R14", "settings by CONTEXTRELAY_URL, CONTEXTRELAY_API_KEY, RELAY_HOME, RELAY_THREAD"),
    not_yet("R15", "push_many stores 10,000 refs in one call; 50 MiB stream in flat memory"),
    # E  Encryption
    not_yet("E1", "client-side Fernet with the key in the URL's fragment, never sent to a server"),
    not_yet("E2", "a wrong, empty or needless key fails with one text, never with a partial body"),
    not_yet("E3", "a signal never carries the key"),
    not_yet("E4", "Relay seals in AES-256-GCM chunks: tampering fails, slices open their chunks"),
    not_yet("E5", "state, project files and packages can be sealed; keys can be rotated"),
    # S  Signals
    not_yet("S1", "a WebSocket gets a frame for each push on its channel; 426 and 400 otherwise"),
    not_yet("S2", "any channel name; isolated; fan-out; a slow subscriber slows nobody"),
    not_yet("S3", "pings, keepalive, reconnects with growing delays; callback errors are survived"),
    not_yet("S4", "nothing missed: replay after a seq, gaps said, each once and in order"),
    not_yet("S5", "publish a message without a body; wait by long poll"),
    not_yet("S6", "the bridge: push a task to another agent and wait for its answer"),
    # T  Threads and state
    not_yet("T1", "thread new, list, show, fork, close, rm; by name, prefix or last used"),
    not_yet("T2", "the state's schema, checked on every patch; unknown fields are kept"),
    not_yet("T3", "state changes only by JSON Patch: all of RFC 6902, atomic, bounded"),
    not_yet("T4", "one of N writers wins, the others get Conflict; merge rebases a patch"),
    not_yet("T5", "every version can be read, compared, restored, forked; patches are what grows"),
    not_yet("T6", "the header: at most 2,048 bytes, cut in a fixed order, the same every time"),
    not_yet("T7", "compaction on patch; older versions stay readable"),
    not_yet("T8", "events, append-only and hash-chained; tail and verify"),
    not_yet("T9", "files that people can open, rebuilt at any time; hand edits can be adopted"),
    not_yet("T10", "export to one zip and import as a new thread, bytes intact"),
    not_yet("T11", "the REST routes of threads, artifacts, events, capabilities and reports"),
    # A  Artifacts
    not_yet("A1", "types, sha256, provenance; lineage can be followed both ways"),
    not_yet("A2", "the preview: a defused head of at most 2,048 bytes, cut at a line end"),
    not_yet("A3", "previews are defused and labelled; the stored content is untouched"),
    not_yet("A4", "POST artifacts as JSON or multipart; 406, 404 and 413"),
    not_yet("A5", "content never goes into a prompt by default: preview and ref do"),
    # L  Looking inside
    not_yet("L1", "outlines of JSON, code, markdown, logs, tables, diffs and HTML"),
    not_yet("L2", "slices by lines, bytes, tokens, pointer, path, rows, heading, symbol; bounded"),
    not_yet("L3", "grep without blow-up, ranked search, and diff of two refs"),
    not_yet("L4", "the same through SDK, command line, HTTP, MCP and page; sealed in the client"),
    not_yet("L5", "every answer counts its tokens, and those of the whole, into the ledger"),
    not_yet("L6", "digest: head, tail, error lines and outline within a token budget"),
    # C  Capabilities
    not_yet("C1", "a registry of capabilities: search and fetch built in, one's own by decorator"),
    not_yet("C2", "results are cached by canonical arguments, with ttl, hit counts and purge"),
    not_yet("C3", "hops are counted and limited to 50 a thread; idempotency keys are honoured"),
    # X  Running
    not_yet("X1", "relay run: a bounded bundle to a provider; the answer is kept; dry runs repeat"),
    not_yet("X2", "anthropic, openai, ollama; retries, streaming, tools to look into refs"),
    not_yet("X3", "wrap any LLM command line; exec any command, output to a ref, status kept"),
    not_yet("X4", "pipelines in YAML: parallel, retried, cached, resumed after a crash"),
    not_yet("X5", "traces as a tree and as OpenTelemetry; byte-identical replay"),
    # K  Packing
    not_yet("K1", "blocks and packages, round-tripping in JSON and protobuf"),
    not_yet("K2", "contextrelay.context: the published names, signatures, defaults and texts"),
    not_yet("K3", "pruning at 0.9 to 0.8 of the real budget; SYSTEM and order kept; recoverable"),
    not_yet("K4", "adding a block costs the same at block 10 and at block 100,000"),
    not_yet("K5", "pack: never over budget, deterministic, cache-friendly, with reasons"),
    not_yet("K6", "inline, once or by ref: whichever is cheapest with prompt caching"),
    not_yet("K7", "handoffs: give, accept, list, why; the receiver sees the same bytes"),
    not_yet("K8", "memory optimizer, concurrency limits, and the telecom example end to end"),
    # J  Project files
    not_yet("J1", "project init writes four files from templates and keeps what is there"),
    not_yet("J2", "todos: fields, transitions, review after a day, both file shapes"),
    not_yet("J3", "decisions are appended, never edited"),
    not_yet("J4", "start gives the brief under a budget; finish writes everything atomically"),
    not_yet("J5", "parent and child hand over through state.json; no writer loses a change"),
    not_yet("J6", "files are the truth: edits taken, unknown fields kept, broken files named"),
    not_yet("J7", "ships as an Agent Skill"),
    # M  Protocols
    not_yet("M1", "MCP over stdio and HTTP: tools, resources, actionable errors; conformant"),
    not_yet("M2", "A2A: card, messages, streams, tasks, artifacts by ref; conformant"),
    not_yet("M3", "OpenAPI 3.1 of everything; problem+json errors; 401 and 403"),
    # H  Coding agents
    not_yet("H1", "install and uninstall for five agents: a diff first, byte-identical after"),
    not_yet("H2", "hooks that brief, digest, save and hand off, and never break the agent"),
    not_yet("H3", "discover says what refs would have saved in past transcripts, honestly"),
    not_yet("H4", "prime prints what an agent is told, under a budget"),
    # I  Frameworks
    not_yet("I1", "ten frameworks, one file each, tested against the real framework"),
    # G  Engines and platforms
    not_yet("G1", "embedded SQLite and files, no daemon, many processes, no network unasked"),
    not_yet("G2", "Redis, Valkey, PostgreSQL and object stores by URL; one suite for all"),
    not_yet("G3", "migrate, backup, restore, verify, gc"),
    not_yet("G4", "Linux and macOS, Python 3.11+; four scripts; a single-file build"),
    # Z  Access and limits
    not_yet("Z1", "loopback by default; tokens, scopes, expiry, revocation, quotas"),
    not_yet("Z2", "Host and Origin checked exactly; security headers; sandboxed HTML"),
    not_yet("Z3", "every input has a bound; past it a clear 4xx, never a crash, hang or 500"),
    not_yet("Z4", "refs cannot be guessed or listed; no input reaches outside the store"),
    # U  Insight
    not_yet("U1", "stats: the published formula, and beside it the honest ledger"),
    not_yet("U2", "report in three formats; demo, offline in seconds; doctor"),
    not_yet("U3", "the page: every screen offline, by keyboard, with a JSON twin"),
    not_yet("U4", "Prometheus, OpenTelemetry, and benchmarks with plots"),
)

ID = r"[A-Z]\d{1,2}"
NAMED = re.compile(rf"\bPromises?\s+({ID}(?:(?:\s*,\s*and\s+|\s*,\s*|\s+and\s+){ID})*)\b")


@dataclass(frozen=True, slots=True)
class NamedTest:
    """A test as its file spells it: where it is and which promises its docstring names."""

    node_id: str
    line: int
    promises: tuple[str, ...]


def promises_named(docstring: str) -> tuple[str, ...]:
    """The ids after "Promise" or "Promises", each once, in order."""
    named = (id for match in NAMED.finditer(docstring) for id in re.findall(ID, match[1]))
    return tuple(dict.fromkeys(named))


def tests_in(path: str, text: str) -> Iterator[NamedTest]:
    """Every test function in a file, without importing it."""
    yield from _tests_under(ast.parse(text, path), path)


def _tests_under(node: ast.Module | ast.ClassDef, prefix: str) -> Iterator[NamedTest]:
    for child in node.body:
        if isinstance(child, ast.ClassDef):
            yield from _tests_under(child, f"{prefix}::{child.name}")
        elif _is_test(child):
            named = promises_named(ast.get_docstring(child) or "")
            yield NamedTest(f"{prefix}::{child.name}", child.lineno, named)


def _is_test(node: ast.stmt) -> TypeGuard[ast.FunctionDef | ast.AsyncFunctionDef]:
    is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    return is_function and node.name.startswith("test_")


def all_tests() -> dict[str, NamedTest]:
    """Every test of the project by node id."""
    found: dict[str, NamedTest] = {}
    for path in sorted((ROOT / "tests").rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        found |= {test.node_id: test for test in tests_in(name, path.read_text())}
    return found


def main(arguments: list[str]) -> None:
    tests_by_promise: dict[str, list[str]] = defaultdict(list)
    for test in all_tests().values():
        for id in test.promises:
            tests_by_promise[id].append(test.node_id)
    letter = ""
    for promise in PROMISES:
        if promise.id[0] != letter:
            letter = promise.id[0]
            print(f"\n{letter}  {SECTIONS[letter][0]}")
        print(f"  {promise.id:<4} {promise.status:<8} {promise.text}")
        if promise.missing or promise.why:
            print(f"                {promise.missing or promise.why}")
        if "--tests" in arguments:
            for node_id in tests_by_promise[promise.id]:
                print(f"                {node_id}")
    counts = Counter(promise.status for promise in PROMISES)
    print("\n" + ", ".join(f"{count} {status}" for status, count in counts.most_common()))


if __name__ == "__main__":
    main(sys.argv[1:])
