"""Token estimates that err on the high side: above the exact count, but not far above."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from random import Random

import pytest

from contextrelay.content.token_estimate import estimate_tokens_high
from contextrelay.content.tokens import count_tokens

REPOSITORY = Path(__file__).parents[2]
RANDOM = Random(28)


def random_lines(alphabet: str, chars: int) -> str:
    return "\n".join("".join(RANDOM.choices(alphabet, k=chars)) for _ in range(200))


OUTPUTS = {
    "code": (REPOSITORY / "src/contextrelay/core/answer.py").read_text(),
    "capitals": (REPOSITORY / "src/contextrelay/limits.py").read_text(),
    "text": (REPOSITORY / "CONTRIBUTING.md").read_text(),
    "numbers": "\n".join(f"{number}: {number * 7919}" for number in range(500)),
    "columns": "\n".join(
        f"-rw-r--r-- 1 root root {number * 37:>9} Nov 19 23:{number % 60:02} part_{number}.so"
        for number in range(200)
    ),
    "frames": "\n".join("#" * 60 + "\n" + "=" * 60 + "│ ok │\n" + "─" * 60 for _ in range(50)),
    "short words": "\n".join(
        f"{number:x}:\t48 89 {number % 256:02x}\tmov    %rax,0x{number:x}(%rsp)"
        for number in range(200)
    ),
    "base64": b64encode(RANDOM.randbytes(8_000)).decode(),
    "letters": random_lines("abcdefghijklmnopqrstuvwxyz", 60),
    "hexadecimal": random_lines("0123456789abcdef", 64),
    "Russian": "Ошибка: не удалось открыть файл настроек, проверьте права доступа\n" * 30,
    "Chinese": "错误：无法打开配置文件，请检查访问权限\n" * 30,
    "Polish": "Błąd: nie można otworzyć pliku ustawień, sprawdź uprawnienia dostępu\n" * 30,
}


@pytest.mark.parametrize("kind", OUTPUTS)
def test_an_estimate_is_above_the_count_and_not_far_above_it(kind: str) -> None:
    text = OUTPUTS[kind]

    exact = count_tokens(text)

    assert exact <= estimate_tokens_high(text) <= 3 * exact


def test_any_text_has_an_estimate() -> None:
    for _ in range(300):
        text = "".join(chr(RANDOM.choice((RANDOM.randrange(0x110000), 32, 10))) for _ in range(50))

        assert estimate_tokens_high(text) > 0
