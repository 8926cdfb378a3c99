"""JSON pointers and JSONPath into hostile documents: bounded in time and memory at every door."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import urlopen

import pytest

from contextrelay import Relay
from contextrelay.errors import Invalid, NotFound, TooLarge
from tests.cli.shell import Shell
from tests.content.slicing.sources import Counted
from tests.fuzz.measured import MIB

CPU_S_MAX = 5.0
"""Of what takes half a second on an idle machine; before, each of these took over 30 s."""
MEMORY_BYTES_MAX = 300 * MIB

LONG_KEY = b'{"' + b"k" * 100_000 + b'":[' + b",".join([b"0"] * 10_000) + b"]}"
DEEP_LISTS = b"[" * 63 + b"[" + b"0," * 4_000_000 + b"0]" + b"]" * 63
DEEP_OBJECTS = b'{"a":' * 62 + b'{"b":[' + b'"a",' * 2_000_000 + b"0]}" + b"}" * 62
LARGE = b"[[" + b'{"a":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},' * 250_000 + b"0]]"
ATTACKS: dict[str, tuple[bytes, dict[str, str]]] = {
    "a long key over many items": (LONG_KEY, {"json_path": "$.*[*]"}),
    "the same large value again and again": (LARGE, {"json_path": f"$[{','.join('0' * 480)}]"}),
    "lists in lists": (DEEP_LISTS, {"json_pointer": "/0" * 63}),
    "objects in objects": (DEEP_OBJECTS, {"json_pointer": "/a" * 62 + "/b/2000000"}),
}

measurable = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="the system tells no memory of a process"
)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def status_of(pid: int) -> tuple[float, int]:
    """Processor seconds of a process so far, and the most memory that it had."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    cpu_s = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    status = Path(f"/proc/{pid}/status").read_text()
    peak = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return cpu_s, int(peak.split()[1]) * 1_024


@measurable
@pytest.mark.parametrize("attack", ATTACKS)
def test_the_sdk_answers_hostile_slices_within_bounds(attack: str) -> None:
    """Promise L2."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.security.test_json_slices", attack],
        capture_output=True,
        timeout=300,
    )

    assert done.returncode == 0, done.stderr.decode()
    took = json.loads(done.stdout)
    assert took["cpu_s"] < CPU_S_MAX
    assert took["memory_bytes"] < MEMORY_BYTES_MAX


@measurable
def test_a_server_answers_hostile_slices_within_bounds(shell: Shell) -> None:
    """Promise L2: one GET cannot keep a server busy."""
    with shell.started("serve", "--port", "0", "--json") as server:
        reported = json.loads(server.line())
        with Relay(reported["url"]) as relay:
            bodies = {name: body for name, (body, _) in ATTACKS.items()}
            refs = {name: relay.push(bodies[name], name="a.json").ref for name in bodies}
        for name, (body, asked) in ATTACKS.items():
            before_s, before_bytes = status_of(reported["pid"])
            ((way, value),) = asked.items()
            place = f"{reported['url']}/v1/artifacts/{refs[name]}/slice?{way}={quote(value)}"
            with urlopen(place, timeout=200) as reply:
                assert len(reply.read()) < MIB
            after_s, after_bytes = status_of(reported["pid"])
            assert after_s - before_s < CPU_S_MAX, name
            assert after_bytes - before_bytes < MEMORY_BYTES_MAX + len(body), name


@measurable
def test_the_command_line_answers_hostile_slices_within_bounds(shell: Shell) -> None:
    for name, (body, asked) in ATTACKS.items():
        (shell.home / "a.json").write_bytes(body)
        ref = shell.json("push", "a.json")["ref"]
        ((way, value),) = asked.items()

        before_s = _children_s()
        shell.out("get", ref, f"--{way.replace('_', '-')}", value)

        assert _children_s() - before_s < 2 * CPU_S_MAX, name


def _children_s() -> float:
    """Processor seconds of the processes that this one has started and waited for."""
    times = os.times()
    return times.children_user + times.children_system


def test_what_a_pointer_finds_is_the_same_as_a_parser_finds() -> None:
    text = r'{"a/b":[1,{"c~":"x]\"[,{"},[]],"é":{"":[[[[5]]]],"d":null},"z":1.5}'
    document: Any = json.loads(text)
    for indent in (None, 1):
        body = Counted(json.dumps(document, indent=indent).encode(), "json")
        assert json.loads(body.take("json_pointer", "/a~1b/1").text) == document["a/b"][1]
        assert body.take("json_pointer", "/é//0/0/0/0").text == "5"
        assert body.take("json_pointer", "/é/d").text == "null"
        assert body.take("json_pointer", "/z").text == "1.5"
        assert json.loads(body.take("json_pointer", "").text) == document


def test_the_last_of_the_same_name_counts() -> None:
    body = Counted(b'{"a":{"b":1},"\\u0061":{"b":2},"c":0}', "json")

    assert body.take("json_pointer", "/a/b").text == "2"
    assert body.take("json_path", "$.a.b").text == "/a/b\t2\n"
    with pytest.raises(NotFound):
        Counted(b'{"a":{"b":1},"a":{"c":2}}', "json").take("json_pointer", "/a/b")
    with pytest.raises(Invalid, match="truncated"):
        Counted(b"", "json").take("json_pointer", "/a")
    many = Counted(b"{" + b'"a":0,' * 5_000 + b'"a":1}', "json")
    assert many.take("json_pointer", "/a").text == "1"


def test_items_nested_deeper_than_is_skipped_at_once_are_skipped_one_by_one() -> None:
    deep = b"[" * 80 + b'"]"' + b"]" * 80
    many = b",".join([b"0"] * 100 + [deep]) + b","
    body = Counted(b"[" + many * 50 + b'{"x":7}]', "json")

    assert body.take("json_pointer", f"/{50 * 101}/x").text == "7"
    assert body.take("json_pointer", "/100").text == deep.decode()


def test_a_value_behind_a_byte_order_mark_goes_on_at_its_own_place() -> None:
    body = Counted(b'\xef\xbb\xbf{"a":"' + b"x y " * 500 + b'"}', "json")

    piece = body.take("json_pointer", "/a", 20)
    following = body.take("bytes", piece.next_args["bytes"], 20)

    assert (b'"' + b"x y " * 500).startswith((piece.text + following.text).encode())


def test_a_full_answer_counts_what_it_leaves_out() -> None:
    body = Counted(b"[" + b",".join(b"%d" % number for number in range(5_000)) + b"]", "json")

    piece = body.take("json_path", "$[*]", 50)

    shown = piece.text.count("\n")
    assert piece.left_out == f"{5_000 - shown:,} of 5,000 values"
    assert piece.next_args == {"json_pointer": f"/{shown}"}


def test_of_more_matches_than_are_counted_it_is_said_so() -> None:
    body = Counted(b"[" + b"0," * 20_000 + b"0]", "json")

    assert "of more than 10,000 values" in body.take("json_path", "$[*]", 50).left_out


def test_a_long_value_is_shown_in_part_and_measured() -> None:
    piece = Counted(b'{"a":[' + b"1," * 5_000 + b"1]}", "json").take("json_path", "$.a", 5_000)

    assert piece.text.endswith(" [… more of 5,001 items]\n")
    assert "--json-pointer '/a'" in piece.notes[0]


@pytest.mark.parametrize(
    "query",
    [
        "$" + "..*" * 100,
        "$" + "[*,*]" * 100,
        "$[?" + "!" * 300 + "@.a]",
        "$[?count(@..*) > count($..*)]",
        "$[?@ == $ || @ == $[0] || $..* == 1]",
        "$" + "[?@[?@" * 80 + "]]" * 80,
        "$[?$[?$[?@.id == 1]]]",
        "$[?$ == $]",
        "$..[?@..[?@..a]]",
        "$[?search($.x, '(a+)+$')]",
    ],
)
def test_a_query_that_multiplies_is_ended(query: str) -> None:
    """Promise L2."""
    with Relay("memory:") as relay:
        ref = relay.push(b"[" + b'[[{"a":[1,[2,[3]]]}]],' * 3_000 + b"0]", name="a.json").ref

        try:
            piece = relay.slice(ref, json_path=query, tokens_max=200)
        except (Invalid, TooLarge):
            return
    assert piece.spent.tokens <= 200


@pytest.mark.parametrize(
    ("query", "selected"),
    [
        ("$[?@ == true]", ["/2"]),
        ("$[?@ == 1]", ["/1"]),
        ("$[?@ == [1]]", ["/3"]),
        ("$[?@ == [true]]", []),
        ("$[?$[3] == [1]][0]", ["/3/0"]),
        ("$[?$[3] == $[3]].a", ["/4/a"]),
        ("$[?search(@.a, '^x')]", ["/4"]),
        ("$[?match(@.a, 'x')]", []),
        ("$[?search(@.a, '(')]", []),
        ("$[0][0:1]", []),
        ("$[?!@]", []),
        ("$[?@.a == $.nowhere]", ["/0", "/1", "/2", "/3", "/5"]),
        ("$[?length(@.a) == 2]", ["/4"]),
        ("$[?count(@.*) == 1]", ["/3", "/4"]),
        ("$[?value(@..b) == 5]", ["/5"]),
        ("$[?@.a == 'xy' && @.a < 'xz']", ["/4"]),
        ("$[-1:0:-2]", ["/5", "/3", "/1"]),
        ("$[5,5]['b','b']", ["/5/b"] * 4),
    ],
)
def test_a_query_selects_what_rfc_9535_says(query: str, selected: list[str]) -> None:
    document = b'["x",1,true,[1],{"a":"xy"},{"b":5,"c":[]}]'

    text = Counted(document, "json").take("json_path", query).text

    assert [line.partition("\t")[0] for line in text.splitlines()] == selected


def test_a_document_with_too_many_values_is_refused_for_a_query_and_not_for_a_pointer() -> None:
    body = Counted(b"[" + b"{}," * 2_700_000 + b"7]", "json")

    with pytest.raises(TooLarge, match="too many values"):
        body.take("json_path", "$[0]")
    assert body.take("json_pointer", "/2700000").text == "7"


def _main(attack: str) -> None:
    """Do one slice in this process, and print what it took."""
    from tests.fuzz.measured import bound_memory, measure

    body, asked = ATTACKS[attack]
    with Relay("memory:") as relay:
        warm = relay.push(b"[[0]]", name="a.json").ref
        relay.slice(warm, json_pointer="/0/0")
        relay.slice(warm, json_path="$..*")
        ref = relay.push(body, name="a.json").ref
        bound_memory()
        took = measure(lambda: relay.slice(ref, **asked))  # pyright: ignore[reportArgumentType]
    print(json.dumps({"cpu_s": took.cpu_s, "memory_bytes": took.memory_bytes}))


if __name__ == "__main__":
    _main(sys.argv[1])
