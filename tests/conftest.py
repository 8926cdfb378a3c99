"""What every test gets: a store of its own, a home of its own, and honest skips.

Rule: no test reads or writes the store of the person who runs it.
"""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from tests.again import CRASHED
from tests.rigs import LENGTH, length, rig

if TYPE_CHECKING:
    from tests.cli.shell import Shell
    from tests.store.engines import Servers

FORBID_SKIPS = os.environ.get("RELAY_FORBID_SKIPS") == "1"
# Folders of tests are in memory where there is room: what a disk does is tested in tests/crash.
FAST_FOLDER = Path("/dev/shm")
FAST_BYTES_MIN = 4 * 1024**3
if FAST_FOLDER.is_dir() and shutil.disk_usage(FAST_FOLDER).free > FAST_BYTES_MIN:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(FAST_FOLDER))
OWN_VARIABLES = ("RELAY_BLOBS", "CONTEXTRELAY_URL", "CONTEXTRELAY_API_KEY", "RELAY_THREAD")

# "ci" makes the same examples on every run; "--hypothesis-profile search" looks for new ones.
settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=length(thin=15, long=100, full=1_000),
)
settings.register_profile("search", deadline=None, max_examples=2_000)
settings.load_profile("ci")


@pytest.fixture(autouse=True)
def own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Point RELAY_HOME into the test's own folder, and unset what would lead elsewhere."""
    monkeypatch.setenv("RELAY_HOME", str(tmp_path / "relay-home"))
    for name in OWN_VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def servers() -> Generator[Servers]:
    """Real servers for engines that need one: one set a worker, ended with it."""
    from tests.store.engines import Servers

    running = Servers()
    try:
        yield running
    finally:
        running.stop()


# A home of its own: code that forgets RELAY_HOME makes ~/.relay, and the guard below sees it.
# xdist's workers inherit HOME from the process that starts them, so only that one sets it.


def is_worker() -> bool:
    return "PYTEST_XDIST_WORKER" in os.environ


class HomeGuard:
    """Lends the whole run an empty home, and fails the run if ~/.relay appears in it."""

    def __init__(self) -> None:
        self.real = {
            name: os.environ.get(name) for name in ("HOME", "SSL_CERT_FILE", "SSL_CERT_DIR")
        }
        self.real_store = Path.home() / ".relay"
        self.had_real_store = self.real_store.exists()
        self.home = Path(tempfile.mkdtemp(prefix="relay-test-home-"))
        os.environ["HOME"] = str(self.home)
        # Tests ask loopback alone, and a client that loads all certificates takes 40 ms to make.
        # obstore refuses to work without any: it gets one whose key was thrown away.
        (self.home / "no-certificates").mkdir()
        os.environ["SSL_CERT_DIR"] = str(self.home / "no-certificates")
        os.environ["SSL_CERT_FILE"] = str(Path(__file__).parent / "one-certificate.pem")

    def problem(self) -> str | None:
        if (self.home / ".relay").exists():
            return "a test used the default store ~/.relay; it has to use RELAY_HOME"
        if self.real_store.exists() and not self.had_real_store:
            return f"{self.real_store} was made during the tests; it has to stay untouched"
        return None

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        problem = self.problem()
        if problem:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        problem = self.problem()
        if problem:
            terminalreporter.section("home guard", red=True)
            terminalreporter.write_line(problem)

    def pytest_unconfigure(self) -> None:
        for name, value in self.real.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        shutil.rmtree(self.home, ignore_errors=True)


def pytest_configure(config: pytest.Config) -> None:
    if not is_worker():
        CRASHED.unlink(missing_ok=True)
        config.pluginmanager.register(HomeGuard(), "relay-home-guard")


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(crashitem: str) -> None:
    """Name a test whose worker died: another worker runs it, and then it no longer counts."""
    CRASHED.parent.mkdir(exist_ok=True)
    with CRASHED.open("a") as names:
        names.write(f"{crashitem}\n")


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Spare every collection of garbage the modules and tests that stay to the end."""
    gc.collect()
    gc.freeze()


# The modules that take longest, which are begun first: at the end the others would wait for them.
LONGEST = (
    "test_app.py",
    "test_browser.py",
    "test_replicated.py",
    "test_snippets.py",
    "test_verbs.py",
    "test_foreign_content.py",
    "test_kit.py",
    "test_bridge.py",
    "test_content.py",
    "test_runs.py",
    "test_real_model.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path.name, len(LONGEST)))


def pytest_itemcollected(item: pytest.Item) -> None:
    """A module runs in one worker, so that its servers and browsers are started once.

    Not where rigs are long: several workers share a module then. What is tried on examples is a
    rig: more of them where the rigs run longer.
    """
    if LENGTH == "thin" and not item.get_closest_marker("xdist_group"):
        item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0].replace("/", ".")))
    if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
        item.add_marker(rig)


# Skips for want of a part (tests/parts.py) are failures where they are forbidden.


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    refuse_skip(report)
    return report


def refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    if not FORBID_SKIPS or report.outcome != "skipped" or not isinstance(report.longrepr, tuple):
        return
    path, line, reason = report.longrepr
    reason = reason.removeprefix("Skipped: ")
    if reason.startswith("needs "):
        report.outcome = "failed"
        report.longrepr = f"{path}:{line}: skipped, and RELAY_FORBID_SKIPS=1 forbids it: {reason}"


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """The command line, run in a folder of its own."""
    from tests.cli.shell import Shell

    return Shell(tmp_path)
