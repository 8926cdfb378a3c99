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


def test_the_span_is_from_the_earliest_to_the_latest_time() -> None:
    """Promise L1: also where lines are not in order."""
    days = ("05", "09", "02", "07")
    lines = [f"[Mon Dec {day} 10:00:00 2005] [notice] request done" for day in days * 10]

    text = outlined("\n".join(lines), "a.log").text

    assert "time Mon Dec 02 10:00:00 2005 to Mon Dec 09 10:00:00 2005" in text


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
