"""Channels, handoffs, runs, search, health and the board of a project."""

from __future__ import annotations

import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from contextrelay import Pipeline, Relay
from contextrelay.pipelines.runs import list_runs, show
from contextrelay.project.project import Project, init_project
from contextrelay.project.thread_link import link_at
from contextrelay.web.entry import PageOptions
from tests.server.serving import Served, serving
from tests.store.engines import until
from tests.web.reader import Reader

PIPELINE = """
name: ship
steps:
  list: {exec: "echo one"}
  go: {approve: "Ship it?", needs: [list]}
  ship: {exec: "echo shipped", needs: [go]}
"""


def test_a_channel_is_replayed_from_any_point_and_published_to(page: Reader, relay: Relay) -> None:
    """Promise U3."""
    for number in range(5):
        relay.publish("team/news", f"message {number}", by="coder")

    replayed = page.json("/ui/channel.json?name=team/news&after=3")
    shown = page.open("/ui/channel?name=team/news")
    page.send(shown.form("/ui/channel"), message="from a person")

    assert [each["seq"] for each in replayed["signals"]] == [4, 5]
    assert "message 0" in shown.texts
    assert relay.signals("team/news", 5).signals[0].message == "from a person"
    assert "team/news" in page.open("/ui/channels").texts


def test_news_of_a_channel_and_of_a_thread_are_streamed_as_numbers(
    served: Served, relay: Relay
) -> None:
    """Promise U3: what is new is asked for by who may see it."""
    thread = relay.new_thread("live")
    head = thread.show().events

    def heard(query: str, act: object) -> str:
        with httpx2.stream("GET", f"{served.url}/ui/live?{query}", timeout=30) as reply:
            threading.Timer(0.1, act).start()  # pyright: ignore[reportArgumentType]
            for line in reply.iter_lines():
                if line.startswith("data:"):
                    return line
        return ""

    assert heard("channel=news&after=0", lambda: relay.publish("news", "secret")) == "data: 1"
    added = heard(f"thread={thread.id}&after={head}", lambda: thread.add_event("note.added"))
    assert added == f"data: {head + 1}"


def test_nobody_follows_what_they_may_not_see(relay: Relay, stranger: Reader) -> None:
    """Promise Z2."""
    relay.publish("private", "x")
    thread = relay.new_thread("private")
    stranger.enter(relay.new_key(scope="read", channels=("open",)).token)

    for query in ("channel=private", f"thread={thread.id}"):
        assert stranger.web.get(stranger.within(f"/ui/live?{query}")).status_code in (403, 404)


def test_handoffs_are_a_graph_and_one_says_what_it_kept_and_why(page: Reader, relay: Relay) -> None:
    """Promise U3."""
    thread = relay.new_thread("work")
    thread.add_fact("the key is wrong")
    ref = thread.hand_off("coder", "fix <b>it</b>", by="planner").ref

    listed, shown = page.open("/ui/handoffs"), page.open(f"/ui/h/{ref}")

    assert "<svg" in listed.html
    assert "planner" in listed.texts
    assert "fix <b>it</b>" in shown.texts
    assert "kept:" in shown.text
    assert page.json(f"/ui/h/{ref}.json")["view"]["ref"] == ref


@pytest.fixture
def waiting(relay: Relay, store: Path, tmp_path: Path) -> Generator[str]:
    """A run that waits for a decision."""
    file = tmp_path / "ship.yaml"
    file.write_text(PIPELINE)

    def run() -> None:
        with Relay(store) as own:
            Pipeline.load(file).run(own)

    running = threading.Thread(target=run, daemon=True)
    running.start()

    def waits() -> bool:
        runs = list_runs(relay)
        return bool(runs) and show(relay, runs[0].run).steps["go"].status == "waiting"

    until(waits, "the step to wait")
    yield list_runs(relay)[0].run
    running.join(30)


def test_a_run_is_a_graph_and_its_waiting_step_is_approved(
    page: Reader, relay: Relay, waiting: str
) -> None:
    """Promise U3."""
    shown = page.open(f"/ui/r/{waiting}")
    after = page.send(shown.form("/decide"), verdict="approve")
    until(lambda: show(relay, waiting).status == "done", "the end of the run")

    assert "go waits for a decision" in shown.text
    assert 'class="box waiting"' in shown.html
    assert "Decided" in after.text
    assert page.json("/ui/runs.json")["runs"][0]["run"] == waiting


def test_a_server_runs_no_commands_for_a_page(page: Reader, relay: Relay, waiting: str) -> None:
    """Promise Z2: cancel and resume are for who started `relay ui`."""
    shown = page.open(f"/ui/r/{waiting}")
    fields = shown.form("/decide").fields

    assert page.web.post(f"/ui/r/{waiting}/cancel", data=fields).status_code == 403
    assert page.web.post(f"/ui/r/{waiting}/resume", data=fields).status_code == 403
    assert not any(form.action.endswith(("/cancel", "/resume")) for form in shown.forms)
    page.send(shown.form("/decide"), verdict="reject", reason="no")
    assert show(relay, waiting).steps["go"].reason == "no"


def test_search_finds_passages_threads_and_refs_with_facets(page: Reader, relay: Relay) -> None:
    """Promise U3."""
    ref = relay.push("the falcon lands on Friday\n", name="plan.txt").ref
    relay.push('{"bird": "falcon"}', name="bird.json")
    relay.new_thread("falcon project")

    twin = page.json("/ui/search.json?q=falcon")
    shown = page.open("/ui/search?q=falcon")

    assert twin["types"].keys() == {"text", "json"}
    assert [each["name"] for each in twin["threads"]] == ["falcon project"]
    assert "<mark>falcon</mark>" in shown.html
    assert page.json(f"/ui/search.json?q={ref[:8]}")["ref"] == ref
    assert "No matching passages" in page.open("/ui/search?q=zebra").text


def test_health_shows_keys_to_admins_alone(relay: Relay, stranger: Reader, page: Reader) -> None:
    """Promise U3. Promise Z2."""
    relay.push("x")
    token = relay.new_key(name="reader", scope="read").token
    stranger.enter(token)

    mine, theirs = page.json("/ui/health.json"), stranger.json("/ui/health.json")

    assert [each["key"]["name"] for each in mine["keys"]] == ["reader"]
    assert mine["store"]["artifacts"] == 1
    assert (theirs["keys"], theirs["store"], theirs["settings"]) == ([], None, None)


@pytest.fixture
def own(store: Path, relay: Relay, tmp_path: Path) -> Generator[Reader]:
    """The page as `relay ui` has it, in the folder of a project."""
    folder = tmp_path / "project"
    folder.mkdir()
    init_project(Project(folder))
    page = PageOptions(code="once", folder=str(folder), address=str(store))
    with (
        serving(store, needs_token=True, page=page) as served,
        httpx2.Client(base_url=served.url) as web,
    ):
        reader = Reader(web)
        reader.enter("once")
        yield reader


def test_the_board_of_a_project_is_edited_through_its_files(own: Reader, tmp_path: Path) -> None:
    """Promise U3."""
    board = own.open("/ui/project")
    after = own.send(board.form("/project/add"), title="write <b>docs</b>", priority="high")
    own.send(after.form("/project/todo"), move="start")
    own.send(board.form("/project/decide"), title="Use SQLite")
    project = Project(tmp_path / "project")

    (todo,) = project.todos.list()
    assert (todo.title, todo.status, todo.priority) == ("write <b>docs</b>", "in_progress", "high")
    assert [each.title for each in project.decisions()] == ["Use SQLite"]
    assert "write <b>docs</b>" in own.open("/ui/project").texts


def test_who_started_the_page_may_ask_the_doctor(own: Reader) -> None:
    """Promise U3."""
    assert "integrity" in own.open("/ui/health?doctor=1").text


def test_a_server_shows_what_a_project_shares_and_edits_nothing(
    page: Reader, relay: Relay, store: Path, tmp_path: Path
) -> None:
    """Promise U3: `project.*` facts, read-only."""
    folder = tmp_path / "project"
    folder.mkdir()
    project = Project(folder, link=link_at(folder, str(store), lambda: relay))
    init_project(project)
    project.todos.add("write <b>docs</b>")
    project.decide("Use SQLite")

    board = page.open("/ui/project")

    assert "write <b>docs</b>" in board.texts
    assert "Use SQLite" in board.texts
    assert not [form for form in board.forms if form.method == "post"]
    form = {**page.open("/ui/channel?name=x").form("/ui/channel").fields, "title": "mine"}
    assert page.web.post("/ui/project/add", data=form).status_code == 403


def test_facts_of_a_project_that_somebody_made_up_are_shown_or_refused(
    page: Reader, relay: Relay
) -> None:
    """Promise Z2: anybody with a key may write them."""
    assert "No projects here" in page.open("/ui/project").text
    assert "No projects here" in page.open("/ui/project?thread=zz").text
    values: list[Any] = [7, None, "x", [1], {"id": 5, "title": ["t"], "_list": {"a": 1}}]
    for name in ("todo.1", "todos.next", "decision.1", "about", "progress", "tasks", "phase"):
        for number, value in enumerate(values):
            fact = {"id": f"{name}{number}", "key": f"project.{name}", "value": value}
            thread = relay.new_thread(f"project {name} {number}")
            thread.patch([{"op": "add", "path": "/facts/-", "value": fact}])
            assert page.open(f"/ui/project?thread={thread.id}").status < 500


def test_what_is_read_of_a_server_elsewhere_is_not_counted_there(relay: Relay, store: Path) -> None:
    """Promise U3: what people see is no model's pull, wherever the store is."""
    ref = relay.push("# Words\n" + "word " * 4_000, name="words.md").ref
    before = relay.savings()
    with serving(store) as far:
        page = PageOptions(remote=far.url)
        with serving("memory:", page=page) as near, httpx2.Client(base_url=near.url) as web:
            for view in ("", "?view=lines", "?view=grep&pattern=word", "?view=preview"):
                assert Reader(web).open(f"/ui/a/{ref}{view}").status == 200
        after = relay.savings()
        with Relay(far.url) as model:
            model.pull(ref)
            pulled = model.savings().pulls

    assert after == before
    assert pulled == 1
