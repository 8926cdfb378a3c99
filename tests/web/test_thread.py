"""A thread on the page: versions, what changed, restore and fork."""

from __future__ import annotations

import pytest

from contextrelay import Relay
from contextrelay.client.thread import Thread
from tests.web.reader import Reader


@pytest.fixture
def thread(relay: Relay) -> Thread:
    made = relay.new_thread("release notes", by="planner")
    for fact in ("it ships on Friday", "it ships on Monday", "it is late"):
        made.add_fact(fact, by="coder")
    return made


def test_a_version_is_shown_with_what_changed_and_what_the_model_sees(
    page: Reader, thread: Thread
) -> None:
    """Promise U3."""
    shown = page.open(f"/ui/t/{thread.id}?v=3")
    twin = page.json(f"/ui/t/{thread.id}.json?v=3")

    assert "What changed: v2 → v3" in shown.text
    assert "it ships on Monday" in shown.text
    assert "it is late" not in shown.html.partition('id="travelled"')[2]
    assert twin["header"] == thread.header(3)
    assert twin["header_tokens"]["basis"] == "measured"
    assert twin["changes"] == thread.diff(2, 3).operations


def test_an_old_version_is_restored_as_the_newest_and_once(page: Reader, thread: Thread) -> None:
    """Promise U3: a form that is sent twice is done once."""
    form = page.open(f"/ui/t/{thread.id}?v=2").form("/restore")

    after = page.send(form)
    page.send(form)

    assert "Restored" in after.text
    assert thread.show().version == 5
    assert [fact["value"] for fact in thread.state()["facts"]] == ["it ships on Friday"]


def test_a_thread_is_forked_at_a_version(page: Reader, relay: Relay, thread: Thread) -> None:
    """Promise U3."""
    form = page.open(f"/ui/t/{thread.id}?v=2").form("/fork")

    after = page.send(form, name="another try")

    assert "another try" in after.text
    assert relay.thread("another try").show().forked_from == f"{thread.id}@v2"


def test_events_come_in_pages_and_each_unfolds(page: Reader, thread: Thread) -> None:
    """Promise U3."""
    for number in range(60):
        thread.add_event("note.added", {"number": number})

    newest = page.open(f"/ui/t/{thread.id}/events")
    earlier = page.open(next(link for link in newest.links if "after=" in link))

    assert '"number": 59' in newest.text
    assert "thread.created" in earlier.text


def test_report_and_trace_are_those_of_the_commands(page: Reader, thread: Thread) -> None:
    """Promise U3: the same parts as `relay report --format html`."""
    thread.run("What is late?", model="echo")

    report, trace = (page.open(f"/ui/t/{thread.id}/{each}") for each in ("report", "trace"))

    assert "it is late" in report.text
    assert "What is late?" in trace.text
    assert page.json(f"/ui/t/{thread.id}/trace.json")["trace"]["totals"]["runs"] == 1


def test_a_key_that_may_only_read_sees_no_buttons_and_can_change_nothing(
    relay: Relay, thread: Thread, stranger: Reader
) -> None:
    """Promise Z2."""
    stranger.enter(relay.new_key(scope="read").token)
    shown = stranger.open(f"/ui/t/{thread.id}?v=2")
    out = shown.form("/ui/leave")

    fields = {**out.fields, "version": "2", "once": "x"}
    reply = stranger.web.post(stranger.within(f"/ui/t/{thread.id}/restore"), data=fields)

    assert {form.action for form in shown.forms if form.method == "post"} == {out.action}
    assert reply.status_code == 403
    assert thread.show().version == 4
