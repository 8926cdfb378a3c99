"""Bad addresses and settings: refused by name, and nothing is made."""

from __future__ import annotations

from pathlib import Path

import pytest

from contextrelay import Invalid, Relay, RelayError


@pytest.mark.parametrize(
    "address",
    [
        "",
        "ftp://host/x",
        "javascript:alert(1)",
        "sqlite://",
        "sqlite://host/path",
        "memory\0:",
        "folder-\ud800",
        "a" * 300,
    ],
)
def test_a_bad_address_is_refused_and_makes_nothing(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise Z3."""
    monkeypatch.chdir(tmp_path)

    with pytest.raises(RelayError) as caught:
        Relay(address)

    assert caught.value.hint
    assert len(caught.value.message) < 1_000
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")

    for address in (file, file / "below"):
        with pytest.raises(RelayError) as caught:
            Relay(address)
        assert caught.value.hint

    assert file.read_text() == "mine"


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"body_bytes_max": 99999999999}', "\xff"],
)
def test_bad_settings_are_refused_by_their_file(tmp_path: Path, text: str) -> None:
    """Promise Z3."""
    (tmp_path / "config.json").write_text(text, encoding="latin-1")

    with pytest.raises(Invalid) as caught:
        Relay(tmp_path)

    assert str(tmp_path / "config.json") in caught.value.message
    assert caught.value.hint
