"""Logs: formats, levels, messages, exceptions and times."""

from __future__ import annotations

import json

from tests.content.outline.drawing import outlined

HEADS = (
    "081109 203615 148 {0} store.Node$Worker: ",
    "[Sun Dec 04 04:47:44 2005] [{0}] ",
    "2015-10-18 18:01:47,978 {0} [main] org.example.app.Master: ",
    "Jun 14 15:16:01 host app[19939]: {0} ",
)


def _log(head: str, trouble: str, message: str) -> str:
    quiet = head.format("INFO")
    lines = [f"{quiet}request {number} was answered without delay" for number in range(200)]
    lines[100] = head.format(trouble) + message
    return "\n".join(lines)


def test_the_format_is_shown_once_and_messages_whole() -> None:
    """Promise L1: an error's message is whole up to 200 characters, whatever is before it."""
    message = (
        "cannot write block 17 of volume seven to the second disk, " + "because it is full " * 7
    )
    for head in HEADS:
        text = outlined(_log(head, "ERROR", message.strip()), "a.log").text

        assert f"101: {message.strip()}" in text
        assert text.count(head.format("INFO").strip()) == 1
        assert "x199 1: request 0 was answered without delay" in text


def test_without_a_name_a_log_is_known_by_its_times() -> None:
    """Promise L1."""
    for head in HEADS:
        assert outlined(_log(head, "WARN", "the disk is nearly full"), "").kind == "log"


def test_a_level_within_a_message_is_no_level() -> None:
    """Promise L1."""
    lines = [
        f"2026-01-05 10:00:{n % 60:02} INFO api: exception thrown, ERROR {n}" for n in range(90)
    ]
    text = outlined("\n".join(lines), "a.log").text

    assert "error lines" not in text
    assert "levels: INFO 90" in text


def test_messages_that_differ_in_numbers_are_one_kind_and_long_ones_keep_their_end() -> None:
    """Promise L1."""
    long = "part of a long report " * 20
    lines = [f"2026-01-05 10:00:00 WARN api: user {n} has no room left" for n in range(300)]
    lines.append(f"2026-01-05 10:00:01 ERROR api: {long}and this is where it went wrong in the end")
    text = outlined("\n".join(lines), "a.log").text

    assert "warning lines: 300, 1 kinds:" in text
    assert "and this is where it went wrong in the end" in text


def test_an_exception_is_shown_with_its_type_and_last_own_frame() -> None:
    """Promise L1."""
    java = (
        "java.io.IOException: Broken pipe\n\tat sun.nio.Socket.write(Socket.java:47)\n"
        "\tat a.B.c(B.java:1)"
    )
    python = (
        'Traceback (most recent call last):\n  File "/srv/a.py", line 3, in run\n    go()\n'
        '  File "/srv/b.py", line 9, in go\n    raise KeyError("x")\nKeyError: \'x\''
    )
    lines = [f"2026-01-05 10:00:00 INFO api: request {n}" for n in range(100)]
    lines[50:50] = ["2026-01-05 10:00:00 ERROR api: failed", java]
    lines[80:80] = ["2026-01-05 10:00:00 ERROR api: failed again", python]
    text = outlined("\n".join(lines), "a.log").text

    assert "java.io.IOException: Broken pipe, at a.B.c(B.java:1)" in text
    assert "KeyError: 'x', at b.py:9 in go" in text
    assert text.count("java.io.IOException: Broken pipe") == 1


def test_the_span_is_from_the_earliest_to_the_latest_time() -> None:
    """Promise L1: also where lines are not in order."""
    days = ("05", "09", "02", "07")
    lines = [f"[Mon Dec {day} 10:00:00 2005] [notice] request done" for day in days * 10]

    text = outlined("\n".join(lines), "a.log").text

    assert "time Mon Dec 02 10:00:00 2005 to Mon Dec 09 10:00:00 2005" in text


def test_a_run_of_tests_is_outlined_by_what_failed_why_and_its_summary() -> None:
    """Promise L1."""
    pytest_output = (
        "." * 60 + "\nE       AssertionError: bad remainder\n"
        "=== short test summary info ===\nFAILED test_a.py::test_many[3] - AssertionError: bad\n"
        "=== 1 failed, 60 passed in 0.30s ===\n"
    )
    go = "--- FAIL: TestSum (0.00s)\n    sum_test.go:9: got 3, want 4\nFAIL\texample/sum\t0.004s\n"
    cargo = "test tests::adds ... FAILED\n\ntest result: FAILED. 3 passed; 1 failed; 0 ignored\n"

    shown = outlined(pytest_output * 3, "").text
    assert "1 failed, 60 passed in 0.30s" in shown
    assert "test_a.py::test_many[3] - AssertionError: bad" in shown
    assert "TestSum" in outlined(go, "out.txt").text
    assert "sum_test.go:9: got 3, want 4" in outlined(go, "out.txt").text
    assert "tests::adds" in outlined(cargo, "out.txt").text
    both = (
        "assertion `left == right` failed\n  left: 4\n right: 5\n    Expected: 3\n    Received: 2\n"
    )
    said = outlined(f"{cargo}{both}", "out.txt").text
    for each in ("left: 4", "right: 5", "Expected: 3", "Received: 2"):
        assert each in said


def test_a_number_below_zero_makes_no_other_kind() -> None:
    """Promise L1."""
    ids = (7 ** (12 + n % 9) * (-1) ** n for n in range(200))
    lines = [f"2026-01-05 10:00:00 WARN api: no copy of blk_{id} left, {id % 9 - 4}" for id in ids]
    text = outlined("\n".join(lines), "a.log").text

    assert "warning lines: 200, 1 kinds:" in text


def test_a_few_messages_are_whole_before_other_lines_are_shown() -> None:
    """Promise L1: errors and warnings first, whole up to 200 characters."""
    head = "2026-01-05 10:00:00 INFO api:"
    plain = [f"{head} began {'and went on ' * (n % 30)}to its end" for n in range(400)]
    places = ("first disk", "second disk", "third disk")
    said = [f"got an exception while serving to the {each}, {'again ' * 20}" for each in places]
    plain[70:70] = [f"2026-01-05 10:00:00 WARN api: {each}and gave up" for each in said]
    text = outlined("\n".join(plain), "a.log", tokens_max=300).text

    assert all(f": {each}and gave up" in text for each in said)


def test_the_end_of_a_short_message_has_what_stands_before_it() -> None:
    """Promise L1: the last 50 characters of each line, also where loggers alone differ."""
    head = "2026-01-05 10:00:00,123"
    lines = [f"{head} INFO [main] org.example.Master: {n} went well" for n in range(300)]
    lines[40] = f"{head} ERROR [main] org.example.store.Writer: gave up"
    lines[90] = f"{head} ERROR [main] org.example.store.Reader: gave up"
    text = outlined("\n".join(lines), "a.log").text

    assert "error lines: 2, 2 kinds:" in text
    assert lines[40][-50:] in text
    assert lines[90][-50:] in text


def test_errors_and_warnings_share_the_room() -> None:
    """Promise L1: of a few errors and a few warnings none is left out."""
    words = ["one", "two", "three", "four", "five", "six", "seven", "eight"]
    long = "which takes a while to say, because it is long " * 3
    lines = [f"2026-01-05 10:00:00 INFO api: {n} went well" for n in range(300)]
    lines += [f"2026-01-05 10:00:00 ERROR api: {long}and ends with {word}" for word in words]
    lines += [f"2026-01-05 10:00:00 WARN api: {long}but went on to {word}" for word in words]
    text = outlined("\n".join(lines), "a.log").text

    assert all(f"and ends with {word}" in text for word in words)
    assert all(f"but went on to {word}" in text for word in words)


def test_what_wrote_the_lines_may_stand_before_the_time() -> None:
    """Promise L1."""
    lines = [f"update-links 2026-01-05 10:00:{n % 60:02}: link {n} was made" for n in range(99)]
    text = outlined("\n".join(lines), "a.log").text

    assert "each line: update-links 2026-01-05 10:00:00: <message>" in text
    assert "x99 1: link 0 was made" in text


def test_without_a_name_a_log_is_known_by_its_levels_too() -> None:
    """Promise L1: also by times that only the first line of each entry has."""
    levels = "\n".join(f"<at> | INFO  | part {n} began | app.Main" for n in range(60))
    statement = "statement:\n\tselect\n\t  a,\n\t  b\n\tfrom c"
    several = "\n".join(
        f"2026-01-05 10:00:{n}.1 CEST [{n}] LOG:  {statement}" for n in range(10, 60)
    )

    assert outlined(levels, "").kind == "log"
    assert outlined(several, "").kind == "log"
    assert (
        outlined("A line with ERROR failed.\n\nOthers did not,\nI think.\n" * 9, "").kind == "text"
    )


def test_errors_of_a_log_of_records_are_shown() -> None:
    """Promise L1: after the shape; also where a record takes several lines."""
    quiet = [json.dumps({"level": "info", "message": f"went well {n}"}) for n in range(99)]
    loud = json.dumps({"level": "ERROR", "message": "the disk is full, and nothing was kept"})
    stacked = loud.replace("}", ', "trace": ["a",\n"b"]}')

    lines = outlined("\n".join([*quiet, loud, *quiet]), "a.jsonl").text
    text = outlined("\n".join([stacked, *quiet, stacked.replace("disk", "tape")]), "").text

    assert "error lines: 1, 1 kinds:\n100: " in lines
    assert 'the disk is full, and nothing was kept"}' in lines
    assert "JSON: 101 documents, 103 lines" in text
    assert "error lines: 2, 2 kinds:" in text
    assert 'the tape is full, and nothing was kept", "trace": ["a",' in text


def _header(lines: list[str]) -> str:
    """What the outline says that each line begins with, and the line above: the time."""
    shown = outlined("\n".join(lines), "a.log").text.split("\n")
    at = next(at for at, line in enumerate(shown) if line.startswith("each line: "))
    return "\n".join(shown[at - 1 : at + 1])


def test_a_level_may_stand_before_the_time_and_where_in_the_source_it_was_said() -> None:
    lines = [f"I0301 00:0{n}:08.000000   77 main.go:{n}] served the request {n}" for n in range(9)]

    assert "main.go:0] <message>" in _header(lines)


def test_a_time_in_the_name_of_a_file_is_none_of_the_log() -> None:
    lines = [f"api.log.1.2017-05-16_13:53:08 2017-05-16 00:0{n}:00.008 7 INFO x" for n in range(9)]

    assert "time 2017-05-16 00:00:00.008 to 2017-05-16 00:08:00.008" in _header(lines)


def test_a_date_with_dots_belongs_to_its_time() -> None:
    lines = [f"[{n:02}.30 16:49:06] chrome.exe - a.b.c:443 open through proxy" for n in range(1, 9)]

    assert "time 01.30 16:49:06 to 08.30 16:49:06" in _header(lines)


def test_lines_of_many_machines_have_the_name_of_what_wrote_them_in_their_header() -> None:
    lines = [f"Jul  1 09:00:{n:02} host-{n} kernel[0]: link {n} is up" for n in range(60)]

    assert "kernel[0]: <message>" in _header(lines)
