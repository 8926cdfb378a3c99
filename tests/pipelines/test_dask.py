"""Steps on the workers of a Dask cluster: a real scheduler, real workers, a server between them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from contextrelay import Pipeline, Relay
from contextrelay.model.pipeline import PipelineRun
from contextrelay.pipelines import runs
from contextrelay.pipelines.steps.child import end_leftovers
from tests.pipelines.running import result
from tests.store.engines import free_port, until

END_S_MAX = 20


@contextmanager
def started(*words: str, folder: Path) -> Generator[subprocess.Popen[bytes]]:
    with (folder / f"{words[1]}.log").open("wb") as log:
        running = subprocess.Popen(
            [sys.executable, "-m", *words],
            cwd=folder,
            stdout=log,
            stderr=log,
            env={**os.environ, "RELAY_HOME": str(folder / "served")},
            start_new_session=True,
        )
    try:
        yield running
    finally:
        os.killpg(running.pid, signal.SIGTERM)
        try:
            running.wait(END_S_MAX)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()


class Cluster:
    """A scheduler with two workers, and a relay that they share."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        pytest.importorskip("distributed")
        self.on = f"dask://127.0.0.1:{free_port()}"
        self.url = f"http://127.0.0.1:{free_port()}"
        port = self.on.rpartition(":")[2]
        scheduler = ("dask", "scheduler", "--host", "127.0.0.1", "--port", port, "--no-dashboard")
        server = ("contextrelay", "serve", "--port", self.url.rpartition(":")[2])
        stack.enter_context(started(*scheduler, folder=folder))
        stack.enter_context(started(*server, folder=folder))
        place = f"tcp://127.0.0.1:{port}"
        worker = ("dask", "worker", place, "--nworkers", "2", "--nthreads", "2", "--no-dashboard")
        stack.enter_context(started(*worker, folder=folder))


@pytest.fixture
def cluster(tmp_path: Path) -> Generator[Cluster]:
    with ExitStack() as stack:
        made = Cluster(tmp_path, stack)

        def answers() -> bool:
            try:
                with Relay(made.url) as relay:
                    return not relay.threads().threads
            except Exception:
                return False

        until(answers, "the server")
        yield made


def test_steps_run_on_workers_and_only_refs_travel(cluster: Cluster, tmp_path: Path) -> None:
    """Promise X4."""
    (tmp_path / "p.yaml").write_text(
        """\
name: far
steps:
  pids: {foreach: [a, b, c, d], exec: 'echo $PPID; sleep 0.3'}
  ask: {prompt: "Say {{steps.pids.ref}}", model: echo}
  join: {python: "far:join", args: {refs: "{{steps.pids.refs}}"}}
"""
    )
    (tmp_path / "far.py").write_text(
        "from contextrelay import Relay\n"
        "import os\n"
        "def join(refs):\n"
        "    with Relay(os.environ['CONTEXTRELAY_URL']) as relay:\n"
        "        return sorted({relay.pull(ref).decode() for ref in refs})\n"
    )

    with Relay(cluster.url) as relay:
        ended = Pipeline.load(tmp_path / "p.yaml").run(relay, on=cluster.on)

        assert ended.status == "done", ended.reason
        assert str(os.getpid()) not in result(relay, ended, "join")
        assert (ended.steps["pids"].ref or "none") in result(relay, ended, "ask")


def test_cancelling_a_run_ends_what_its_workers_do(cluster: Cluster, tmp_path: Path) -> None:
    """Promise X4."""
    (tmp_path / "p.yaml").write_text(
        "name: far\nsteps:\n  hangs: {exec: 'touch begun; sleep 1000'}\n"
    )
    ended: list[PipelineRun] = []
    with Relay(cluster.url) as relay:
        pipeline = Pipeline.load(tmp_path / "p.yaml")
        thread = threading.Thread(
            target=lambda: ended.append(pipeline.run(relay, on=cluster.on)), daemon=True
        )
        thread.start()
        until((tmp_path / "begun").exists, "the step")
        run = runs.list_runs(relay)[0].run

        with Relay(cluster.url) as other:
            runs.cancel(other, run)
        thread.join(30)

        assert ended[0].status == "cancelled"
        until(lambda: end_leftovers(run) == 0, "the end of the step")
