"""doctor: check the store and the installation, and suggest fixes."""

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
# A store of at most this size can be verified within about a second.
VERIFIED_BYTES_MAX = 64 * MIB
VERIFIED_ARTIFACTS_MAX = 5_000
MARKS = {"ok": "✔", "hint": "–", "failure": "✗"}


class Finding(Struct, frozen=True, rename={"text": "told"}):
    """The result of one check."""

    what: str
    state: str
    text: str
    next_step: str = ""


def doctor(args: Namespace, console: Console) -> None:
    """Check the store, its speed, its disk space and the installation; suggest fixes."""
    findings = run_checks(console)
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
    """A relay that `run_checks` checks, and the address of the relay."""

    @property
    def relay(self) -> Relay: ...
    @property
    def address(self) -> str | None: ...


def run_checks(console: CheckedRelay) -> list[Finding]:
    """Run all checks and return their findings."""
    findings: list[Finding] = []
    here = (_integrity, _content, _bodies, _search, _speed, _space)
    for look in (_store, *here, _commands, _installation, _others):
        if look in here and findings[0].state == "failure":
            # If the store could not be opened, the remaining checks would fail for the same reason.
            continue
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
        due = f"{display.count(report.due, 'record')} expired, awaiting cleanup"
        yield Finding("store", "hint", due, "relay gc")


def _integrity(console: CheckedRelay) -> Iterator[Finding]:
    if is_server(console.address):
        text = f"{console.address} is a server: run the checks of its disk and ledger there"
        yield Finding("integrity", "hint", text, "run relay doctor on the machine of the store")
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
        yield Finding("integrity", "ok", "integrity check passed")
    for advice in checked.advice:
        text, _, next_step = advice.rpartition("; ")
        yield Finding("settings", "hint", text, next_step)


def _content(console: CheckedRelay) -> Iterator[Finding]:
    """Yield the findings of verifying all content, if the store is small enough."""
    if is_server(console.address):
        return
    store = console.relay.survey()
    if store.body_bytes > VERIFIED_BYTES_MAX or store.artifacts > VERIFIED_ARTIFACTS_MAX:
        yield Finding("content", "hint", "not checked: the store is large", "relay verify")
        return
    report = console.relay.verify()
    # Problems of the ledger come first in the report. They are shown under "integrity", so skip
    # them here.
    damaged = report.problems[len(console.relay.transport.stores.ledger.check()) :]
    for problem in damaged:
        text = f"{problem.ref}: {problem.what}" if problem.ref else problem.what
        yield Finding("content", "failure", text, problem.next_step)
    if not damaged:
        yield Finding(
            "content", "ok", f"{display.count(report.events, 'event')} and all bodies verified"
        )


def _bodies(console: CheckedRelay) -> Iterator[Finding]:
    """Yield the finding of writing, reading and deleting a large body."""
    if is_server(console.address) or console.relay.transport.stores.engine.is_read_only:
        return
    start = time.perf_counter()
    is_same = console.relay.transport.ask(TryBlob())
    took_ms = (time.perf_counter() - start) * 1000
    if is_same:
        yield Finding("bodies", "ok", f"100 kB written, read and deleted in {took_ms:.1f} ms")
    else:
        yield Finding(
            "bodies", "failure", "a body changed between write and read", "check the disk"
        )


def _search(console: CheckedRelay) -> Iterator[Finding]:
    """Yield a finding about whether the search index is up to date, if there is an index."""
    if is_server(console.address):
        return
    state = console.relay.transport.ask(ReadSearchIndex())
    if state is None:
        return
    if state.waiting or not state.is_complete:
        least = "" if state.is_complete else "at least "
        text = f"{least}{display.count(state.waiting, 'artifact')} not indexed yet"
        yield Finding("search", "hint", text, "run relay gc, or search: both add them")
    else:
        text = f"search index up to date ({display.count(state.artifacts, 'artifact')})"
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
        text = f"only {display.size(free_bytes)} free for {home}"
        yield Finding(
            "space",
            "failure",
            text,
            "free some space: relay gc, or delete other files on this disk",
        )
    else:
        yield Finding("space", "ok", f"{display.size(free_bytes)} free")


def _commands(console: CheckedRelay) -> Iterator[Finding]:
    """Yield findings about whether the `relay` on the PATH is the program that is running."""
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
            text = f"`{name}` on the PATH is {found}, not {ours}"
            yield Finding("command", "hint", text, f"put {folder} first in PATH, or run {ours}")


def _installation(console: CheckedRelay) -> Iterator[Finding]:
    installed = metadata.version("contextrelay")
    if installed != contextrelay.__version__:
        text = f"contextrelay {installed} is installed, but {contextrelay.__version__} is running"
        yield Finding("package", "hint", text, "pip install --force-reinstall contextrelay")
    else:
        text = f"contextrelay {installed}, Python {sys.version.split()[0]}"
        yield Finding("package", "ok", f"{text}, default store {default_address()}")


def _others(console: CheckedRelay) -> Iterator[Finding]:
    """Yield findings about other packages named contextrelay, such as the published version
    0.2.0.
    """
    running = Path(contextrelay.__file__).resolve().parent
    for folder in dict.fromkeys(sys.path):
        package, module = Path(folder, "contextrelay"), Path(folder, "contextrelay.py")
        for other, marker in ((package, package / "__init__.py"), (module, module)):
            if marker.is_file() and other.resolve() != running:
                text = (
                    f"{other} is another contextrelay{_version_in(Path(folder))}; {running} is "
                    "running"
                )
                next_step = (
                    f"remove {folder or 'this folder'} from PYTHONPATH, or delete the package there"
                )
                yield Finding("package", "hint", text, next_step)
    for name in metadata.packages_distributions().get("contextrelay", ()):
        if name.lower() != "contextrelay":
            text = f"the distribution {name} also installs a contextrelay; one hides the other"
            yield Finding(
                "package", "failure", text, f"pip uninstall {name}, then reinstall contextrelay"
            )


def _version_in(folder: Path) -> str:
    """Return the version in the package metadata of a folder, as " (VERSION)", or "" if there is
    none.
    """
    found = list(metadata.distributions(name="contextrelay", path=[str(folder)]))
    return f" ({found[0].version})" if found else ""
