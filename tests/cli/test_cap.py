"""cap on the command line: list, invoke, purge."""

from __future__ import annotations

import json

from tests.cli.shell import Shell


def test_cap_list_shows_what_can_be_invoked(shell: Shell) -> None:
    """Promise C1."""
    # In a process of its own: other tests may have added some.
    assert shell.out("cap", "list", real=True).split() == ["http.fetch", "retrieval.search"]
    text = shell.json("cap", "list", real=True)["capabilities"]
    assert set(text[0]) >= {"name", "description", "args_schema", "cacheable", "cache_ttl_sec"}
    assert [each["cache_ttl_sec"] for each in text] == [600, 300]
    assert "args: query [limit] · cached 5 min" in shell.out("cap", "list", human=True)


def test_cap_invoke_prints_the_ref_of_the_result(shell: Shell) -> None:
    """Promises C1, C2."""
    shell.out("push", "-", stdin=b"a needle in a haystack")

    ref = shell.out("cap", "invoke", "retrieval.search", "--arg", "query=needle").strip()

    assert json.loads(shell.out("pull", ref))["found"] == 1


def test_arguments_come_as_json_or_one_by_one_and_mean_the_same(shell: Shell) -> None:
    """Promise C2."""
    name = ("cap", "invoke", "retrieval.search")
    first = shell.json(*name, "--arg", "query=needle", "--arg", "limit=5")

    again = shell.json(*name, "--json", '{"limit": 5, "query": "needle"}')

    assert set(first) == {
        "capability",
        "preview",
        "artifact_ref",
        "cache_hit",
        "cache_key",
        "duration_ms",
    }
    assert (first["cache_hit"], again["cache_hit"]) == (False, True)
    assert again["artifact_ref"] == first["artifact_ref"]
    assert not shell.json(*name, "--fresh", "--json", '{"limit": 5, "query": "needle"}')[
        "cache_hit"
    ]


def test_a_thread_has_its_results_its_figures_and_its_limit(shell: Shell) -> None:
    """Promise C3."""
    shell.out("thread", "new", "--name", "work")
    shell.out("config", "set", "hops_max", "2")
    name = ("cap", "invoke", "retrieval.search", "--arg", "query=x", "-t", "work")
    refs = {shell.out(*name).strip() for _ in range(2)}

    code, said = shell.fails(*name)

    assert len(refs) == 1
    assert (code, said.splitlines()[0]) == (1, "error: hop limit exceeded: 2/2")
    assert "hops_max" in said
    stats = shell.json("stats", "work")
    assert (stats["cache_hits"], stats["cache_misses"], stats["hop_count"]) == (1, 1, 2)
    events = shell.out("events", "work")
    assert "capability.called     you         retrieval.search" in events
    assert "retrieval.search  cached" in events


def test_cap_purge_forgets_and_counts(shell: Shell) -> None:
    """Promise C2."""
    for query in ("a", "b"):
        shell.out("cap", "invoke", "retrieval.search", "--arg", f"query={query}")

    assert shell.out("cap", "purge", "http.fetch").strip() == "0"
    assert shell.json("cap", "purge") == {"entries": 2}
    assert "deleted 0 cached results" in shell.out("cap", "purge", human=True)
