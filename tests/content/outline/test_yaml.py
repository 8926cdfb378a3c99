"""Outlines of YAML: its keys with their lines, what is alike once."""

from __future__ import annotations

from contextrelay.content.overview import digest
from contextrelay.content.source import Source
from tests.content.outline.drawing import outlined


def test_documents_of_yaml_are_described_once() -> None:
    """Promise L1: every field of all, and how many there are, with or without a first mark."""
    document = "kind: Job\nspec:\n  a:\n    b:\n      c:\n      - image: x:{}\n        env: 1\n"
    documents = [document.format(number) for number in range(60)]
    text = outlined("---\n".join(documents), "a.yaml").text

    assert (
        ", 60 documents\nkind: Job:1\nspec:2\n a:3, b, c, image: x:0 | x:1 | x:2 …, env: 1" in text
    )
    assert ", 60 documents\n" in outlined("---\n" + "---\n".join(documents), "a.yaml").text
    assert "documents" not in outlined("# .\n---\n" + document + "...\n", "a.yaml").text


def test_keys_of_yaml_at_any_depth_are_named_and_text_has_none() -> None:
    """Promise L1."""
    run = "        run: |\n          echo no: key\n"
    steps = f"      - name: one\n{run}        with:\n          far: 1\n"
    flow = "      - {on: arm, by: gcc}\n"
    text = outlined(f"jobs:\n  build:\n    steps:\n{steps * 9}    of:\n{flow}", "a.yaml").text

    assert "build:2, steps, name: one, run, with, far: 1, of: [{on: arm, by: gcc}]" in text
    assert "no" not in text.split()


def test_a_mapping_of_yaml_whose_values_are_alike_is_a_map() -> None:
    """Promise L1: its fields are shown, and what is in it but is not alike."""
    words = [f"{first}{last}" for first in "abcde" for last in "vwxyz"]
    apps = [f"  {word}:\n    image: {word}\n    ports: [80]\n" for word in words]
    text = outlined("services:\n  default: 1\n" + "".join(apps) + "last: 1\n", "a.yaml").text
    many = "".join(f"app{number}:\n  image: x\n  env:\n    A: 1\n" for number in range(30_000))
    huge = outlined(many, "a.yaml").text

    assert "services:1 map of 25: av:3, aw:6" in text
    assert "\n default: 1:2\n each: image: av | aw | ax …, ports: [80]\nlast: 1:78" in text
    assert all(f"{word}:" in text for word in words)
    assert "\nmap of 30000: app0:1, app1:5" in huge
    assert "\neach:\n image: x:2\n env:3, A: 1" in huge


def test_what_has_no_place_is_counted() -> None:
    """Promise L1: below forty levels, and of thousands of keys that have nothing in common."""
    deep = "".join(f"{' ' * level}a:\n" for level in range(300))
    odd = "".join(f"k{number}:\n  l{number}: 1\n" for number in range(9_000))

    assert outlined(deep, "a.yaml").text.endswith("more not shown)")
    assert outlined(odd, "a.yaml").omitted > 17_000
    assert "map of 9000: " in outlined(odd.replace("  ", "# "), "a.yaml").text


def test_digest_of_a_mapping_says_what_each_value_has() -> None:
    """Promise L1."""
    body = "".join(f"app{number}:\n  image: x\n  ports: [80]\n" for number in range(99)).encode()
    text = digest(Source.of(body, "application/yaml", "a.yaml", len(body)), "text", 200).text

    assert "map of 99: app0 .. app98 (99)\neach:\n image: x:2\n ports: [80]:3\n--- lines" in text
