"""doctor: is everything all right, and what to do if not."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
import time
from argparse import Namespace
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Protocol

from msgspec import Struct

import contextrelay
from contextrelay.cli import display
from contextrelay.cli.console import Console
from contextrelay.client.relay import Relay
from contextrelay.client.transport.address import is_server
from contextrelay.client.transport.local import default_address
from contextrelay.errors import RelayError
from contextrelay.limits import MIB, RESERVE_BYTES
from contextrelay.verbs import CheckLedger, ReadSearchIndex, TryBlob

SCRIPTS = ("relay", "contextrelay")
LOW_SPACE_BYTES = 25 * RESERVE_BYTES
# A store up to this size is read as `relay verify` does, within about a second.
VERIFIED_BYTES_MAX = 64 * MIB
VERIFIED_ARTIFACTS_MAX = 5_000
MARKS = {"ok": "✔", "hint": "–", "failure": "✗"}


class Finding(Struct, frozen=True, rename={"text": "told"}):
    """One thing that was looked at."""

    what: str
    state: str
    text: str
    next_step: str = ""


def doctor(args: Namespace, console: Console) -> None:
    """Look at the store, its speed and space, and the installation; each with the next step."""
    findings = look_at(console)
    failures = sum(finding.state == "failure" for finding in findings)
    hints = sum(finding.state == "hint" for finding in findings)
    lines: list[str] = []
    for finding in findings:
        lines.append(f"{MARKS[finding.state]} {finding.what:10} {finding.text}")
        if finding.next_step:
            lines.append(f"  {'':10} next: {finding.next_step}")
    total = f"{display.count(hints, 'hint')}, {display.count(failures, 'failure')}"
    console.answer(findings, [*lines, total])
    console.exit_code = 2 if failures else 0


class CheckedRelay(Protocol):
    """What is looked at: a relay, and its address."""

    @property
    def relay(self) -> Relay: ...
    @property
    def address(self) -> str | None: ...


def look_at(console: CheckedRelay) -> list[Finding]:
    """Everything that is found."""
    findings: list[Finding] = []
    here = (_integrity, _content, _bodies, _search, _speed, _space)
    for look in (_store, *here, _commands, _installation, _others):
        if look in here and findings[0].state == "failure":
            continue  # The store could not be opened: it would fail as the first did.
        try:
            findings += look(console)
        except RelayError as error:
            what = look.__name__.strip("_")
            findings.append(Finding(what, "failure", error.local_message, error.hint))
    return findings


def _store(console: CheckedRelay) -> Iterator[Finding]:
    report = console.relay.survey()
    text = f"{report.address} ({report.engine})  {display.count(report.artifacts, 'artifact')}"
    yield Finding("store", "ok", f"{text}  {display.size(report.body_bytes)}")
    if report.due:
        due = f"{display.count(report.due, 'thing')} due to go"
        yield Finding("store", "hint", due, "relay gc")


def _integrity(console: CheckedRelay) -> Iterator[Finding]:
    if is_server(console.address):
        text = f"{console.address} is a server: its disk and its ledger are looked at there"
        yield Finding("integrity", "hint", text, "relay doctor, on the machine of the store")
        return
    checked = console.relay.transport.ask(CheckLedger())
    for problem in checked.problems:
        text, _, next_step = problem.rpartition("; ")
        is_said = bool(text)
        yield Finding(
            "integrity",
            "failure",
            text if is_said else problem,
            next_step if is_said else "relay verify",
        )
    if not checked.problems:
        yield Finding("integrity", "ok", "the ledger's own check finds nothing")
    for advice in checked.advice:
        text, _, next_step = advice.rpartition("; ")
        yield Finding("settings", "hint", text, next_step)


def _content(console: CheckedRelay) -> Iterator[Finding]:
    """Verify the content of a store that is not too large for that."""
    if is_server(console.address):
        return
    store = console.relay.survey()
    if store.body_bytes > VERIFIED_BYTES_MAX or store.artifacts > VERIFIED_ARTIFACTS_MAX:
        yield Finding("content", "hint", "not read: the store is large", "relay verify")
        return
    report = console.relay.verify()
    # The ledger's own findings come first: they are under "integrity".
    damaged = report.problems[len(console.relay.transport.stores.ledger.check()) :]
    for problem in damaged:
        text = f"{problem.ref}: {problem.what}" if problem.ref else problem.what
        yield Finding("content", "failure", text, problem.next_step)
    if not damaged:
        yield Finding("content", "ok", f"{display.count(report.events, 'event')} and all bodies")


def _bodies(console: CheckedRelay) -> Iterator[Finding]:
    """Whether a large body can be written where those go, and read, and deleted."""
    if is_server(console.address) or console.relay.transport.stores.engine.is_read_only:
        return
    start = time.perf_counter()
    is_same = console.relay.transport.ask(TryBlob())
    took_ms = (time.perf_counter() - start) * 1000
    if is_same:
        yield Finding("bodies", "ok", f"100 kB written, read and deleted in {took_ms:.1f} ms")
    else:
        yield Finding("bodies", "failure", "a body came back as another", "check its disk")


def _search(console: CheckedRelay) -> Iterator[Finding]:
    """Whether the search index is up to the store; where nobody searched, there is none."""
    if is_server(console.address):
        return
    state = console.relay.transport.ask(ReadSearchIndex())
    if state is None:
        return
    if state.waiting or not state.is_complete:
        least = "" if state.is_complete else "at least "
        text = f"{least}{display.count(state.waiting, 'artifact')} not in the index yet"
        yield Finding("search", "hint", text, "relay gc, or the next searches, will add them")
    else:
        text = f"{display.count(state.artifacts, 'artifact')} in the index, and none waits"
        yield Finding("search", "ok", text)


def _speed(console: CheckedRelay) -> Iterator[Finding]:
    start = time.perf_counter()
    artifact = console.relay.push(os.urandom(1024), name="doctor", ttl_s=1, created_by="doctor")
    pushed = time.perf_counter()
    console.relay.pull(artifact.ref)
    pulled = time.perf_counter()
    console.relay.remove(artifact.ref)
    text = f"push 1 kB {(pushed - start) * 1000:.1f} ms · pull {(pulled - pushed) * 1000:.1f} ms"
    yield Finding("speed", "ok", text)


def _space(console: CheckedRelay) -> Iterator[Finding]:
    if is_server(console.address):
        return
    home = console.relay.transport.stores.engine.home
    if home is None:
        return
    free_bytes = shutil.disk_usage(home).free
    if free_bytes < LOW_SPACE_BYTES:
        text = f"only {display.size(free_bytes)} left for {home}"
        yield Finding("space", "failure", text, "free some: relay gc, or other files on this disk")
    else:
        yield Finding("space", "ok", f"{display.size(free_bytes)} free")


def _commands(console: CheckedRelay) -> Iterator[Finding]:
    """Whether what is typed is what was installed."""
    folder = Path(sysconfig.get_path("scripts"))
    if Path(sys.argv[0]).name in SCRIPTS:
        folder = Path(sys.argv[0]).resolve().parent
    for name in SCRIPTS:
        ours, found = folder / name, shutil.which(name)
        if found is None and name == "relay":
            text = "relay is not on the PATH"
            yield Finding("command", "hint", text, f"add {folder} to PATH")
        elif found is None or not ours.exists() or Path(found).resolve() == ours.resolve():
            if name == "relay":
                yield Finding("command", "ok", str(found))
        else:
            text = f"`{name}` on the PATH is {found}, not ours: {ours}"
            yield Finding("command", "hint", text, f"put {folder} first in PATH, or call {ours}")


def _installation(console: CheckedRelay) -> Iterator[Finding]:
    installed = metadata.version("contextrelay")
    if installed != contextrelay.__version__:
        text = f"contextrelay {installed} is installed, {contextrelay.__version__} runs"
        yield Finding("package", "hint", text, "pip install --force-reinstall contextrelay")
    else:
        text = f"contextrelay {installed}, Python {sys.version.split()[0]}"
        yield Finding("package", "ok", f"{text}, default store {default_address()}")


def _others(console: CheckedRelay) -> Iterator[Finding]:
    """Whether another package of our name is about, such as the published 0.2.0."""
    running = Path(contextrelay.__file__).resolve().parent
    for folder in dict.fromkeys(sys.path):
        package, module = Path(folder, "contextrelay"), Path(folder, "contextrelay.py")
        for other, marker in ((package, package / "__init__.py"), (module, module)):
            if marker.is_file() and other.resolve() != running:
                text = f"{other} is another contextrelay{_version_in(Path(folder))}; {running} runs"
                next_step = (
                    f"take {folder or 'this folder'} off PYTHONPATH, or remove it from there"
                )
                yield Finding("package", "hint", text, next_step)
    for name in metadata.packages_distributions().get("contextrelay", ()):
        if name.lower() != "contextrelay":
            text = f"the distribution {name} brings a contextrelay too; one hides the other"
            yield Finding(
                "package", "failure", text, f"pip uninstall {name}, then install ours again"
            )


def _version_in(folder: Path) -> str:
    """The version that a folder's own record of installation names."""
    found = list(metadata.distributions(name="contextrelay", path=[str(folder)]))
    return f" ({found[0].version})" if found else ""
