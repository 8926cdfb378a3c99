"""A store and a project full of escapes, and every command with words that make it show them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from contextrelay import Pipeline, Relay
from contextrelay.cli.command_table import every_command
from contextrelay.client.thread import Thread
from contextrelay.core.runs import note_run, record_call
from contextrelay.project import Project
from contextrelay.project.project import init_project
from contextrelay.verbs import NoteRun, RecordCall
from tests.cli.shell import Shell

# OSC 52 writes to the clipboard, CSI clears the screen, C1 does both in one character; then bidi,
# zero-width and tag characters, a carriage return, a backspace and DEL.
HOSTILE = (
    "\x1b]52;c;cm0gLXJm\x07\x1b[2J\x1b[8m\x9b31m\x9d0;title\x9c\u202eright\u2066to\u200bleft\ufeff"
    "\U000e0041 over\rwritten\x08\x7f\x85\u2028end"
)
# Names of a store hold none of this, so the server below puts it in the place of this word.
WORD = "EVILNAME"


class World:
    """A store and a project full of hostile content, and the names that commands need."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.folder = home / "project\x1b[2J\u202e"
        self.body = f"# Head {HOSTILE}\n\nneedle {HOSTILE} {WORD}\n"
        with Relay(home / "store") as relay:
            self._fill(relay)
        self._init_project()
        self._run_a_pipeline()
        for name in ("body.md", "other.md"):
            (home / name).write_text(f"{name}\n{self.body}")
        (home / "patch.json").write_text(json.dumps([_fact("p")]))

    def _run_a_pipeline(self) -> None:
        steps = {
            "says": {"exec": ["printf", "%s", "{{inputs.x}}"]},
            "fails": {
                "exec": 'printf "%s" "$VALUE" >&2; exit 3',
                "env": {"VALUE": "{{inputs.x}}"},
                "needs": "says",
            },
        }
        about = {"name": f"named {WORD}", "inputs": {"x": HOSTILE}}
        wrong = {"says": {"exec": ["true"], "needs": HOSTILE}}
        for name, each in (("steps.yaml", steps), ("wrong.yaml", wrong)):
            # JSON is YAML, but for characters beyond 16 bits.
            text = json.dumps({**about, "steps": each}).replace("\\udb40\\udc41", "\\U000e0041")
            (self.home / name).write_text(text)
        with Relay(self.home / "store") as relay:
            self.pipeline_run = Pipeline.load(self.home / "steps.yaml").run(relay, by=WORD).run

    def _fill(self, relay: Relay) -> None:
        column = HOSTILE.replace("\r", "")
        about: dict[str, Any] = {"metadata": {HOSTILE: HOSTILE, "k": WORD}, "created_by": WORD}
        pushed = relay.push(self.body, name=f"{WORD}.md", channel=f"c/{WORD}", **about)
        self.ref = pushed.ref
        self.table = relay.push(f"a,{column}\n1,{column}\n" * 3, name="t.csv", **about).ref
        self.json = relay.push(json.dumps({HOSTILE: [HOSTILE, WORD]}), name="x.json").ref
        self.code = relay.push(f"def needle():\n    return '{HOSTILE}'\n", name="x.py").ref
        self.sealed = relay.push(self.body, seal=True, name=WORD).url
        thread = relay.new_thread(f"thread {WORD}", WORD)
        self.thread = thread.id
        for operation in (
            _fact("f1"),
            {"op": "add", "path": "/constraints/-", "value": _constraint()},
            {"op": "add", "path": "/open_questions/-", "value": _question()},
            {"op": "add", "path": "/plan/-", "value": _step()},
            {"op": "add", "path": f"/own {HOSTILE}", "value": {HOSTILE: HOSTILE}},
            {"op": "add", "path": "/session_summary", "value": HOSTILE},
        ):
            thread.patch([operation], by=WORD)
        thread.checkpoint(WORD, WORD)
        thread.add_event("custom.event", {HOSTILE: HOSTILE}, WORD)
        self._run(thread)
        thread.put(self.body, name=f"{WORD} put.md", created_by=WORD)
        block = {"type": "MEMORY", "relevance_score": 1.0, "group": HOSTILE}
        thread.put(f"a needle {HOSTILE}", metadata={"block": block})
        self.handoff = thread.hand_off("agent", f"do {HOSTILE}", by=WORD).ref
        self.taken = thread.hand_off("agent", f"do {HOSTILE} {WORD}", by=WORD).ref
        relay.publish(f"c/{WORD}", HOSTILE)
        relay.publish(f"c/{WORD}", {HOSTILE: [HOSTILE]})
        self.key = relay.new_key(name=WORD).key.id
        self.key_to_revoke = relay.new_key(name=f"{WORD}2").key.id
        self.doomed = relay.push(self.body, name=WORD).ref
        self.doomed_thread = relay.new_thread(f"doomed {WORD}").id
        gone = relay.push(self.body, name=WORD, metadata={HOSTILE: HOSTILE})
        relay.remove(gone.ref)
        self.gone = gone.ref
        thread.export(self.home / "thread.zip")

    def _run(self, thread: Thread) -> None:
        """A run whose every word is hostile."""
        run = {"run": f"r {HOSTILE}"}
        said = {**run, "kind": HOSTILE, "provider": HOSTILE, "model": HOSTILE, "text": HOSTILE}
        thread.add_event("message.received", said, WORD)
        about: dict[str, Any] = {"thread": thread.id, "run": run["run"], "by": WORD}
        # Earlier versions did not check the id of a run.
        stores = thread.transport.stores
        note_run(stores, NoteRun(status="started", detail=said, **about), b"")
        tools = [{"id": HOSTILE, "name": HOSTILE, "refs": [self.ref]}]
        call = RecordCall(detail={**said, "tools": tools}, **about)
        record_call(stores, call, self.body.encode())
        failed = {"error": HOSTILE, "reason": HOSTILE}
        note_run(stores, NoteRun(status="failed", detail=failed, **about), b"")

    def _init_project(self) -> None:
        self.folder.mkdir()
        project = Project(self.folder)
        init_project(project, "orders", HOSTILE.replace("\r", ""))
        names = ("current_task", "phase", "notes")
        state = json.loads((self.folder / "state.json").read_text())
        for name in names:
            state[name] = HOSTILE
        state["progress"] = {
            "completed": [HOSTILE],
            "in_progress": HOSTILE,
            "blocked": [HOSTILE],
            "next_steps": [HOSTILE],
        }
        state[f"own {HOSTILE}"] = HOSTILE
        (self.folder / "state.json").write_text(json.dumps(state))
        for index in range(8):
            project.todos.add(f"todo {index} {HOSTILE}", description=HOSTILE, notes=HOSTILE)
        with (self.folder / "decisions.md").open("a") as decisions:
            decisions.write(f"\n## ADR-001: choose {HOSTILE}\n\n**Status**: {HOSTILE}\n\nWhy\n")
        with (self.folder / "PROJECT.md").open("a") as about:
            about.write(f"\n## Notes\n\n{HOSTILE}\n")

    @property
    def env(self) -> dict[str, str]:
        return {**in_colour(self.home), "RELAY_PROJECT": str(self.folder)}


def in_colour(home: Path) -> dict[str, str]:
    return {name: value for name, value in Shell(home).env.items() if name != "NO_COLOR"}


def _fact(id: str) -> dict[str, Any]:
    value = {"id": id, "key": f"{HOSTILE} {WORD}", "value": HOSTILE}
    return {"op": "add", "path": "/facts/-", "value": value}


def _constraint() -> dict[str, Any]:
    return {"id": "c1", "description": HOSTILE, "severity": "hard"}


def _question() -> dict[str, Any]:
    return {"id": "q1", "question": HOSTILE, "status": "open"}


def _step() -> dict[str, Any]:
    return {"id": "s1", "step": HOSTILE, "status": "pending"}


# Commands that go on until they are ended: tested apart, but mcp, whose stdout is for a program.
LASTING = {"serve", "ui", "mcp", "bridge start", "chat", "a2a serve"}

Shown = dict[str, list[list[str]]]


def commands(world: World) -> Shown:
    """Every command, with words that make it show what others wrote."""
    shown = _content(world) | _threads(world) | _agents(world) | _project() | _pipelines(world)
    not_shown = {name for name, _ in every_command()} ^ {*shown, *LASTING}
    assert not not_shown, f"add words that show {not_shown}"
    return {name: [[*name.split(), *words] for words in several] for name, several in shown.items()}


def _content(world: World) -> Shown:
    """What is stored, and pieces of it."""
    ref = world.ref
    in_thread = ["-t", world.thread]
    return {
        "demo": [["--clean"]],
        "init": [[]],
        "push": [
            ["body.md", "--meta", f"k={HOSTILE}"],
            ["none\x1b[2J"],
            ["body.md", "--name", HOSTILE],
        ],
        "pull": [
            [ref],
            [ref, "-o", "out.md"],
            [world.sealed],
            [world.gone],
            [f"no\x1b[2J{HOSTILE}"],
        ],
        "peek": [[ref], [ref, "--full"], [world.gone], [world.sealed]],
        "get": [
            [ref, "--lines", "1:9"],
            [ref, "--outline"],
            [ref, "--digest"],
            [ref, "--grep", "needle"],
            [ref, "--bytes", "0:99"],
            [ref, "--tokens", "0:50"],
            [ref, "--heading", "Head"],
            [ref, "--heading", HOSTILE],
            [ref],
            [world.json, "--json-pointer", ""],
            [world.json, "--json-path", "$.*"],
            [world.json, "--json-pointer", f"/{HOSTILE}x"],
            [world.table, "--rows", "0:2"],
            [world.table, "--rows", "0:2", "--columns", f"{HOSTILE}x"],
            [world.code, "--symbol", "needle"],
            [world.sealed, "--lines", "1:9"],
        ],
        "grep": [["needle"], ["needle", ref], ["needle", *in_thread], [f"({HOSTILE}", ref]],
        "diff": [[ref, world.table], [ref, world.json]],
        "search": [["needle right"], ["needle", "--ref", ref], [HOSTILE]],
        "gc": [[]],
        "verify": [[]],
        "backup": [["-o", "all.tar"]],
        "restore": [["all.tar"], ["body.md", "--store", "another"]],
        "migrate": [["store", "moved"], [f"none{HOSTILE}", "x"]],
        "doctor": [[]],
        "artifact put": [["other.md", *in_thread]],
        "artifact get": [[ref], [ref, *in_thread]],
        "artifact list": [[], in_thread],
        "artifact show": [[ref], [world.table], [world.json]],
        "artifact pin": [[ref]],
        "artifact unpin": [[world.ref]],
        "artifact extend": [[world.ref, "7d"]],
        "artifact rm": [[world.doomed]],
    }


def _threads(world: World) -> Shown:
    """Threads, their states and events."""
    thread = world.thread
    in_thread = ["-t", world.thread]
    return {
        "use": [[thread], [], [HOSTILE]],
        "events": [[thread], [thread, "--jsonl"]],
        "tail": [[thread, "--after", "0", "--timeout", "0.2"]],
        "trace": [[thread], [thread, "--html", "trace.html"], [thread, "--otlp", "spans.jsonl"]],
        "ask": [[f"why {HOSTILE}", "-m", "echo", *in_thread], ["why", "-m", HOSTILE, *in_thread]],
        "run": [["--user", f"why {HOSTILE}", "-m", "echo", *in_thread]],
        "exec": [[*in_thread, "--", "cat", "body.md"], [*in_thread, "--", f"none{HOSTILE}"]],
        # What a wrapped agent writes goes to the terminal as it is: its colours are its own.
        "wrap run": [["--cli", "true", *in_thread, "--", "x"], ["--cli", HOSTILE, "--", "x"]],
        "replay": [[thread], [thread, "-m", "echo"], [thread, "--dry-run"]],
        "checkpoint": [["here", *in_thread], [HOSTILE, *in_thread]],
        "stats": [[thread], ["--all"]],
        "report": [[thread], [thread, "--format", "json"], [thread, "--format", "html"]],
        "export": [[thread, "-o", "again.zip"], [thread]],
        "import": [["thread.zip"], ["body.md"], [f"none{HOSTILE}"]],
        "prime": [[]],
        "completion": [["bash"], [HOSTILE]],
        "version": [[]],
        "thread new": [["--name", "another"], ["--name", HOSTILE]],
        "thread list": [[], ["--limit", "1"]],
        "thread show": [[thread], [HOSTILE], [WORD]],
        "thread fork": [[thread]],
        "thread close": [[world.doomed_thread]],
        "thread rm": [[world.doomed_thread, "--yes"]],
        "thread files": [[thread]],
        "state header": [[thread], [HOSTILE]],
        "state show": [[thread], [f"{thread}:/session_summary"], [f"{thread}:/{HOSTILE}"]],
        "state patch": [["--file", "patch.json", *in_thread], ["--json", HOSTILE, *in_thread]],
        "state diff": [["v1", "v5", *in_thread]],
        "state log": [[thread]],
        "state restore": [["v5", *in_thread]],
        "state add": [["fact", HOSTILE, *in_thread], ["fact", f"{HOSTILE}={HOSTILE}", *in_thread]],
        "state resolve": [["q1", *in_thread], [HOSTILE, *in_thread]],
        "state compact": [[thread]],
        "state adopt": [[thread]],
    }


def _agents(world: World) -> Shown:
    """Channels, context, handoffs, capabilities, keys and settings."""
    in_thread = ["-t", world.thread]
    channel = f"c/{WORD}"
    return {
        "subscribe": [
            [channel, "--since", "0", "--once", "--timeout", "5"],
            [channel, "--since", "1", "--once", "--timeout", "5"],
            [channel, "--since", "2", "--once", "--timeout", "5"],
            [channel, "--since", "0", "--once", "--timeout", "5", "--pull"],
        ],
        "publish": [[channel, HOSTILE], [HOSTILE, "x"]],
        "channels": [[], ["--limit", "1"]],
        "wait": [[channel, "--since", "0", "--timeout", "5"]],
        "context add": [[HOSTILE, *in_thread]],
        "context pack": [["needle", *in_thread], ["needle", "--why", *in_thread]],
        "context score": [["needle", *in_thread]],
        "context show": [in_thread],
        "context prune": [["needle", "--budget", "100", *in_thread]],
        "context export": [["needle", *in_thread], ["needle", "-o", "package.json", *in_thread]],
        "context import": [["package.json", *in_thread], ["body.md", *in_thread]],
        "handoff give": [["--to", "b", "--ask", HOSTILE, *in_thread]],
        "handoff accept": [[world.handoff]],
        "handoff return": [[world.handoff, "body.md", "--name", "x"]],
        "handoff list": [[]],
        "handoff show": [[world.taken], [world.taken, "--why"]],
        "cap list": [[]],
        "cap invoke": [
            ["retrieval.search", "--arg", "query=needle"],
            ["retrieval.search", "--arg", f"{HOSTILE}=x"],
            [HOSTILE],
        ],
        "cap purge": [[]],
        "bridge send": [[f"task {HOSTILE}"], ["task", "--wait", "--timeout", "0.2"]],
        "a2a card": [["http://127.0.0.1:9"], [HOSTILE]],
        "a2a send": [["http://127.0.0.1:9", HOSTILE, *in_thread]],
        "keys new": [["--name", "another"], ["--name", HOSTILE]],
        "keys list": [[]],
        "keys revoke": [[world.key_to_revoke], [HOSTILE]],
        "keys usage": [[], [world.key]],
        "config list": [[]],
        "config get": [["ttl_s"], [HOSTILE]],
        "config set": [["ttl_s", HOSTILE]],
        "config path": [[], ["--store", f"a{HOSTILE}b".replace("\0", "")]],
    }


def _pipelines(world: World) -> Shown:
    """Pipelines and their runs, by names and texts of others."""
    run = world.pipeline_run
    return {
        "pipeline run": [["steps.yaml"], ["steps.yaml", "--dry-run"], ["wrong.yaml"]],
        "pipeline validate": [["steps.yaml"], ["wrong.yaml"], ["body.md"], [f"none{HOSTILE}"]],
        "pipeline graph": [["steps.yaml"], ["steps.yaml", "--mermaid"]],
        "pipeline list": [[]],
        "pipeline show": [[run], [HOSTILE]],
        "pipeline approve": [[run, "fails"], [run, HOSTILE]],
        "pipeline reject": [[run, "fails", HOSTILE]],
        "pipeline retry": [[run, "fails"], [run, HOSTILE]],
        "pipeline resume": [[run]],
        "pipeline cancel": [[run], [HOSTILE]],
    }


def _project() -> Shown:
    """The files of a project."""
    return {
        "project init": [["another"]],
        "project start": [[], ["--agent"]],
        "project finish": [["--task", HOSTILE, "--notes", HOSTILE], [HOSTILE]],
        "project status": [[]],
        "project next": [[]],
        "project decide": [[HOSTILE, "--context", HOSTILE]],
        "project decisions": [[], ["ADR-001"], ["ADR-002"]],
        "project note": [[HOSTILE]],
        "project doctor": [[]],
        "project restore": [["v1"], ["v999"]],
        "project todo add": [[f"new {HOSTILE}"]],
        "project todo start": [["todo-001", HOSTILE], [HOSTILE]],
        "project todo done": [["todo-001", HOSTILE]],
        "project todo block": [["todo-002", HOSTILE]],
        "project todo unblock": [["todo-002", HOSTILE]],
        "project todo cancel": [["todo-002", HOSTILE]],
        "project todo list": [["--all"]],
        "project todo review": [[]],
        "project todo archive": [[]],
        "project task give": [[HOSTILE, "--expect", HOSTILE]],
        "project task take": [[]],
        "project task return": [[HOSTILE]],
        "project task list": [[]],
        "project heartbeat": [["--exec", r"printf '\033[2J\302\233x'"]],
    }
