"""Token estimates that err on the high side, without the tokenizer.

Loading the tokenizer takes ten times as long as an empty Python, so a short command that only has
to stay within a number of tokens uses this estimate.

Rule: the estimate is above the exact count for ordinary text, in any language, and for random
letters. For 1,000 tokens it was 1.05 to 1.4 times the count of English, code and the output of
commands, 1.1 to 2.5 times that of other languages, and never below it. A single line may be some
tokens longer than estimated.
"""

from __future__ import annotations

import re

# The parts that the tokenizer separates: words in camel case, numbers with the space before them,
# other spaces except for the last one, which belongs to the next word, and repeated signs.
_PART = re.compile(
    r"(?P<word>[A-Z]?[a-z]+)|(?P<capitals>[A-Z]+)|(?P<number> ?[0-9]+)|(?P<gap>[ \t]+(?=[ \t]))"
    r"|(?P<signs>([!-/:-@\[-^`{-~─═…])\6*)|(?P<accents>[\x80-\u024f\u1e00-\u1eff]+)"
    r"|(?P<letters>[\u0250-\u1dff\u1f00-\u1fff]+)|(?P<others>[^\x00-\x7f])"
)
_VOWEL = re.compile(r"[AEIOUYaeiouy]")
# Letters per vowel: about 2.7 in words, 4.3 in random letters, which are about 0.6 tokens each.
_LETTERS_PER_VOWEL = 3.5
_LINE_TOKENS = 1.2
_MARGIN = 1.05


def estimate_tokens_high(text: str) -> int:
    """Estimate the tokens of a text, rather too high than too low."""
    return round(_MARGIN * sum(map(_line_tokens, text.split("\n"))))


def _line_tokens(line: str) -> float:
    tokens = _LINE_TOKENS
    words = letters = long = 0
    for part in _PART.finditer(line):
        chars = part.end() - part.start()
        match part.lastgroup:
            case "word":
                words, letters = words + 1, letters + chars
                long += max(0, chars - 5)
            case "capitals":
                words, letters = words + 1, letters + chars
                long += max(0, chars - 3)
            case "number":
                has_space = line[part.start()] == " "
                tokens += has_space + (chars - has_space + 2) // 3
            case "gap":
                tokens += 1
            case "signs":
                tokens += 0.85 if chars == 1 else 1 + 0.08 * chars
            case "accents":
                tokens += 1.3 * chars
            case "letters":
                tokens += 0.6 * chars
            case _:
                tokens += 1.3
    if letters > _LETTERS_PER_VOWEL * len(_VOWEL.findall(line)):
        return tokens + words + 0.6 * (letters - words)
    return tokens + 1.05 * words + 0.25 * long
