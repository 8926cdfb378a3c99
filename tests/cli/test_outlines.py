"""relay get --outline and --digest, and a full peek, as a person or a script uses them."""

from __future__ import annotations

from tests.cli.shell import Shell

CODE = "import os\n\n\nclass Box:\n    def area(self):\n        return 1\n" + "X = 1\n" * 500


def test_the_outline_is_on_stdout_and_its_cost_on_stderr(shell: Shell) -> None:
    """Promises L1, L4, L5."""
    (shell.home / "box.py").write_text(CODE)
    ref = shell.json("push", "box.py")["ref"]

    done = shell.run("get", ref, "--outline")
    text = shell.json("get", ref, "--outline", "--tokens-max", "100")

    assert done.stdout.decode().startswith("Python, 506 lines")
    assert "class Box:4" in done.stdout.decode()
    assert f"next: relay get {ref[:8]} --symbol Box" in done.stderr.decode()
    assert text["spent"]["tokens"] <= 100
    assert shell.out("get", ref, *_words(text["next_args"])).startswith("class Box:")


def _words(args: dict[str, str]) -> list[str]:
    return [word for way, value in args.items() for word in (f"--{way.replace('_', '-')}", value)]
