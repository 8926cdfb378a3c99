"""Tokens: count the tokens of a text, exactly or by estimate, offline.

The tokenizers are part of splintr, which is loaded on first use. Its `encode_ordinary` reads
`<|endoftext|>` as plain characters; `encode` would not.

Rule: time and memory are linear, whatever the text is. A text is counted in pieces that end where a
token must end, so that the sum is exact. A run without such a boundary, which occurs in no language
but may be an attack, is cut anywhere, and its count is marked `estimated`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import get_args

from contextrelay.errors import Invalid
from contextrelay.limits import KIB, MIB, TOKEN_PIECE_CHARS
from contextrelay.model.tokens import TokenCount, Tokenizer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from splintr import AnyTokenizer

# How much of runs without boundaries is counted before the rest is estimated.
TOKEN_RUN_CHARS_MAX = MIB
# What an estimate reads at the start, in the middle and at the end.
TOKEN_SAMPLE_CHARS = 8 * KIB

TOKENIZER_DEFAULT: Tokenizer = "o200k_base"


def count_tokens(text: str, tokenizer: Tokenizer = TOKENIZER_DEFAULT) -> int:
    """Count the tokens of a text, as the tokenizer does, unless the text is an attack on it.

    Raises: Invalid for an unknown tokenizer.
    """
    return measure(text, tokenizer).tokens


def measure(text: str, tokenizer: Tokenizer = TOKENIZER_DEFAULT) -> TokenCount:
    """Count the tokens of a text and report whether the count is exact.

    Raises: Invalid for an unknown tokenizer.
    """
    encoder = _encoder(tokenizer)
    tokens, is_exact = 0, True
    run_chars = run_tokens = 0
    for piece, is_run in _pieces(_encodable(text)):
        if is_run and run_chars >= TOKEN_RUN_CHARS_MAX:
            # Such runs are slow to count, and all are alike.
            tokens += len(piece) * run_tokens // run_chars
            continue
        counted = len(encoder.encode_ordinary(piece))
        tokens += counted
        if is_run:
            is_exact = False
            run_chars += len(piece)
            run_tokens += counted
    return TokenCount(tokens, "measured" if is_exact else "estimated", tokenizer)


def cut_to_tokens(text: str, tokens_max: int, tokenizer: Tokenizer = TOKENIZER_DEFAULT) -> str:
    """Return the longest prefix that consists of whole tokens and characters and is within a limit.

    Raises: Invalid for an unknown tokenizer.
    """
    encoder = _encoder(tokenizer)
    # Read no more than can be kept: no token is longer, and the first piece is a low guess.
    text = _encodable(text[: _TOKEN_CHARS_MAX * (max(tokens_max, 0) + 1)])
    kept, tokens_left = 0, tokens_max
    for piece, _ in _pieces(text, min(TOKEN_PIECE_CHARS, max(256, 8 * tokens_max))):
        ids = encoder.encode_ordinary(piece)
        if len(ids) > tokens_left:
            return text[: kept + len(_fitting(encoder, ids, tokens_left))]
        kept += len(piece)
        tokens_left -= len(ids)
    return text


_TOKEN_CHARS_MAX = 128


def _fitting(encoder: AnyTokenizer, ids: list[int], tokens_max: int) -> str:
    """Decode the first tokens; count again, because the cut may change how the end is tokenized."""
    stop = max(tokens_max, 0)
    step = 1
    while stop > 0:
        kept = encoder.decode_bytes(ids[:stop]).decode("utf-8", "ignore")
        if len(encoder.encode_ordinary(kept)) <= tokens_max:
            return kept
        stop -= step
        step *= 2
    return ""


def estimate_tokens(text_or_size: str | int) -> int:
    """Estimate the tokens of a text without the tokenizer, or of unknown text of this many bytes.

    The error is within 4 % for half of the tested texts and within 9 % for nine in ten; for a
    size alone within 35 %. Do not use it for a budget.
    """
    if isinstance(text_or_size, int):
        return -(-text_or_size // _BYTES_PER_TOKEN)
    text = text_or_size
    if len(text) <= 3 * TOKEN_SAMPLE_CHARS:
        return round(_weight(text))
    middle = len(text) // 2
    samples = (
        text[:TOKEN_SAMPLE_CHARS],
        text[middle : middle + TOKEN_SAMPLE_CHARS],
        text[-TOKEN_SAMPLE_CHARS:],
    )
    return round(sum(map(_weight, samples)) * len(text) / (3 * TOKEN_SAMPLE_CHARS))


_BYTES_PER_TOKEN = 4
_PART = re.compile(
    r"(?P<word>[A-Za-z]+)|(?P<number>[0-9]{1,3})|(?P<signs>[!-/:-@\[-`{-~]+)|(?P<line>\n\s*)"
    r"|(?P<letters>[\x80-\u2e7f]+)|(?P<ideographs>[^\x00-\u2e7f]+)"
)


def _weight(text: str) -> float:
    """Estimate tokens by the parts of a text; the weights fit a thousand files by least squares."""
    tokens = 0.0
    for part in _PART.finditer(text):
        chars = part.end() - part.start()
        match part.lastgroup:
            case "word":
                tokens += 0.93 + 0.22 * max(0, chars - 7)
            case "number":
                tokens += 1.26
            case "signs":
                tokens += 0.86 + (3 if chars > 4 else 0)
            case "line":
                tokens += 1.23
            case kind:
                tokens += (0.8 if kind == "letters" else 1.2) * chars
    return tokens


# Positions where both tokenizers end a token in any context: between a letter or digit and a sign
# (except the apostrophe: it's), between letters and digits, and after a line end before either.
_END = re.compile(
    r"[^\W_](?=[\t\r\n -&(-/:-@\[-`{-~、。，！？：；（）「」])"
    r"|[A-Za-z](?=[0-9])|[0-9](?=[A-Za-z])|\n(?=[A-Za-z0-9])"
)
_LOOK_BACK_CHARS = 1_024


def _pieces(text: str, chars: int = TOKEN_PIECE_CHARS) -> Iterator[tuple[str, bool]]:
    start = 0
    while len(text) - start > chars:
        stop, is_forced = _stop(text, start, chars)
        yield text[start:stop], is_forced
        start = stop
        chars = TOKEN_PIECE_CHARS
    yield text[start:], False


def _stop(text: str, start: int, chars: int) -> tuple[int, bool]:
    """Return the end of the piece that starts here: near `chars` characters, later if necessary."""
    aim = start + chars
    # The last character is only looked at, so that the search ends before it.
    last = 0
    for match in _END.finditer(text, max(start, aim - _LOOK_BACK_CHARS), aim + 1):
        last = match.end()
    if last > start:
        return last, False
    following = _END.search(text, aim, start + TOKEN_PIECE_CHARS)
    if following:
        return following.end(), False
    return min(start + TOKEN_PIECE_CHARS, len(text)), True


def _encodable(text: str) -> str:
    """Replace lone surrogates, which cannot be encoded in UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


@cache
def _encoder(tokenizer: str) -> AnyTokenizer:
    from splintr import Tokenizer as Pretrained

    if tokenizer not in get_args(Tokenizer):
        known = ", ".join(get_args(Tokenizer))
        raise Invalid(f"unknown tokenizer {tokenizer}", hint=f"expected one of {known}")
    return Pretrained.from_pretrained(tokenizer)
