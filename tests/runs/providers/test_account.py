"""Keys: where they come from, and where they never go; what to do where a part is missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from contextrelay.errors import Forbidden, Invalid, Unavailable
from contextrelay.runs.providers.openai import OpenAIChat, OpenAIResponses, open_openai
from contextrelay.runs.providers.registry import Account
from tests.runs.providers.vendors import KEY, VENDORS, Vendor, asked

HOST = "api.vendor.example"


def never(_: float) -> None:
    pytest.fail("there is nothing to wait for")


def account(home: Path, url: str = f"https://{HOST}/v1", **environ: str) -> Account:
    return Account("vendor", "VENDOR_KEY", url, HOST, {"RELAY_HOME": str(home), **environ})


@pytest.mark.parametrize("vendor", VENDORS[:1] + VENDORS[2:3], ids=["anthropic", "openai"])
def test_without_a_key_the_ways_on_are_named(vendor: Vendor, tmp_path: Path) -> None:
    """Promise X2."""
    provider = vendor.opens("m", {"RELAY_HOME": str(tmp_path)}, never)

    with pytest.raises(Forbidden) as raised:
        list(provider.answer(asked(provider, "look")))

    assert raised.value.status == 401
    for way in ("_API_KEY", f"{provider.name}.key", "chmod 600", "-m ollama", "-m echo"):
        assert way in raised.value.hint


def test_a_key_may_be_in_a_file_of_its_owner_alone(tmp_path: Path) -> None:
    """Promise X2."""
    file = tmp_path / "vendor.key"
    file.write_text(f"{KEY}\n")
    file.chmod(0o600)
    assert account(tmp_path).key() == KEY
    assert account(tmp_path, VENDOR_KEY="from-outside").key() == "from-outside"

    file.chmod(0o640)

    with pytest.raises(Forbidden, match="is readable by others") as raised:
        account(tmp_path).key()
    assert "chmod 600" in raised.value.hint


def test_the_key_of_a_vendor_is_not_for_others_who_speak_its_language(tmp_path: Path) -> None:
    """Promise X2."""
    for name in ("vendor", "router.example"):
        file = tmp_path / f"{name}.key"
        file.write_text(f"{name}-key")
        file.chmod(0o600)

    assert account(tmp_path).key() == "vendor-key"
    assert account(tmp_path, "http://localhost:8080/v1").key_if_any() == ""
    assert account(tmp_path, "https://router.example/v1").key() == "router.example-key"


@pytest.mark.parametrize("key", ["two words", "a\x00b"])
def test_what_is_no_key_is_not_sent_and_not_shown(key: str, tmp_path: Path) -> None:
    """Promise X2."""
    file = tmp_path / "vendor.key"
    file.write_text(key)
    file.chmod(0o600)

    with pytest.raises(Invalid) as raised:
        account(tmp_path).key()

    assert key not in str(raised.value)


def test_openai_itself_and_others_are_asked_in_their_own_way(tmp_path: Path) -> None:
    """Promise X2."""
    home = {"RELAY_HOME": str(tmp_path)}
    local = {**home, "OPENAI_BASE_URL": "http://127.0.0.1:8080/v1"}

    assert isinstance(open_openai("", home), OpenAIResponses)
    assert isinstance(open_openai("m", local), OpenAIChat)
    with pytest.raises(Invalid, match="missing model name") as raised:
        open_openai("", local)
    assert "-m openai:MODEL" in raised.value.hint
    with pytest.raises(Invalid, match="invalid URL"):
        open_openai("m", {"OPENAI_BASE_URL": "127.0.0.1:8080"})


@pytest.mark.parametrize(
    ("vendor", "package"),
    [(VENDORS[0], "anthropic"), (VENDORS[1], "openai"), (VENDORS[3], "ollama")],
    ids=["anthropic", "openai", "ollama"],
)
def test_a_missing_package_is_named_with_the_way_to_get_it(
    vendor: Vendor, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise X2."""
    monkeypatch.setitem(sys.modules, package, None)
    provider = vendor.open("http://127.0.0.1:9", never)

    with pytest.raises(Unavailable) as raised:
        list(provider.answer(asked(provider, "look")))

    assert raised.value.hint.startswith(f"pip install 'contextrelay[{package}]'")


def test_no_package_of_a_vendor_is_loaded_before_a_model_is_asked() -> None:
    """Promise X2."""
    code = (
        "import sys; from contextrelay.runs.providers.anthropic import Anthropic;"
        "from contextrelay.runs.providers.openai import open_openai;"
        "from contextrelay.runs.providers.ollama import Ollama;"
        "import contextrelay.runs.providers.llm;"
        "[each('m', {}) for each in (Anthropic, open_openai, Ollama)];"
        "print(sorted(set(sys.modules) & {'anthropic', 'openai', 'ollama', 'llm', 'httpx',"
        " 'httpx2', 'pydantic'}))"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
