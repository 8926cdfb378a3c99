"""Results of a grep: matches in any number of bodies, with the lines around them, as far as fits.

Rule: all is counted, whatever is shown: matches that did not fit, bodies that were skipped and why,
and whether the time was over before the end.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from contextrelay.errors import Broken, Gone, Invalid, NotFound
from contextrelay.limits import GREP_COUNTED_MAX, LINE_MARK_BYTES, MATCH_BYTES_SHOWN
from contextrelay.logic.grep.match import Hit, Seeker, blocks_of, compile_pattern
from contextrelay.logic.slicing.fit import fit, fit_lines
from contextrelay.logic.slicing.line_offsets import offset_of_line
from contextrelay.logic.slicing.slice import spent
from contextrelay.logic.slicing.source import Source, readable, shown, text_of
from contextrelay.logic.tokens import TOKENIZER_DEFAULT, count_tokens
from contextrelay.model.inspect import Found, Match, Skipped
from contextrelay.model.tokens import Spent

_SHORT_REF_CHARS = 8
_SKIPPED_MAX = 100


class Wanted(Struct, frozen=True, kw_only=True):
    """What is looked for, and how much of it is shown."""

    pattern: str
    ignore_case: bool = False
    is_fixed: bool = False
    context: int = 0
    is_count: bool = False
    after_line: int = 0
    matches_max: int
    tokens_max: int


class _Gathered:
    """What was found so far."""

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.matches: list[Match] = []
        self.names: dict[str, str] = {}
        self.count = self.looked_at = self.skipped_count = 0
        self.skipped: list[Skipped] = []
        self.notes: list[str] = []
        self.counts: list[str] = []
        self.whole: list[Spent] = []
        self.tokens_left = wanted.tokens_max
        self.is_full = wanted.is_count
        self.unshown_in = ""
        """The first ref of which not all matches are shown."""

    def skip(self, ref: str, why: str) -> None:
        self.skipped_count += 1
        if len(self.skipped) < _SKIPPED_MAX:
            self.skipped.append(Skipped(ref=ref, why=why))

    def takes(self, match: Match) -> bool:
        """Take a match in, if it fits; from the first that does not, none is."""
        if not self.is_full:
            match = self._fitted(match)
            is_new = not self.matches or self.matches[-1].ref != match.ref
            cost = count_tokens(_lines_of(match) + (f"{match.ref} {match.line}" if is_new else ""))
            self.is_full = (
                cost + 1 > self.tokens_left or len(self.matches) >= self.wanted.matches_max
            )
            self.tokens_left -= cost + 1
        if self.is_full:
            self.unshown_in = self.unshown_in or match.ref
            return False
        self.matches.append(match)
        return True

    def _fitted(self, match: Match) -> Match:
        """The very first is shown in any case: without its neighbours, or only its beginning."""
        if self.matches or count_tokens(_lines_of(match)) < self.tokens_left // 2:
            return match
        text = fit(match.text, max(1, self.tokens_left // 2 - 8))
        return replace(match, text=text, before=(), after=())


def find(
    sources: Iterable[Source | Skipped],
    wanted: Wanted,
    is_over: Callable[[], bool],
    is_one: bool = False,
) -> Found:
    """Look for a pattern in sources, one after the other, until the time is over.

    It ends early too where matches are too many to be counted.

    Raises:
        Invalid: the pattern cannot be used.
    """
    pattern = compile_pattern(wanted.pattern, wanted.ignore_case, wanted.is_fixed)
    gathered = _Gathered(wanted)
    is_complete = True
    for source in sources:
        if is_over() or gathered.count >= GREP_COUNTED_MAX:
            is_complete = False
            break
        if isinstance(source, Skipped):
            gathered.skip(source.ref, source.why)
            continue
        seeker = Seeker(pattern, is_over, GREP_COUNTED_MAX - gathered.count)
        try:
            _look_into(readable(source), seeker, gathered)
        except Invalid as binary:
            gathered.skip(source.ref, binary.message)
        except (Broken, NotFound, Gone) as error:
            # One that is damaged or was removed meanwhile is skipped, unless it is the only one.
            if is_one:
                raise
            ref = source.ref
            gathered.skip(ref, f"{ref[:_SHORT_REF_CHARS]} cannot be read: {error.message}")
        is_complete = is_complete and seeker.is_complete
    return _found(gathered, is_complete, is_one)


def _look_into(source: Source, seeker: Seeker, gathered: _Gathered) -> None:
    wanted = gathered.wanted
    gathered.looked_at += 1
    seeker.is_enough = gathered.is_full
    offset, line = 0, 1
    if wanted.after_line:
        marks = source.marks() if source.size_bytes > 2 * LINE_MARK_BYTES else None
        aim = wanted.after_line + 1
        offset, line = offset_of_line(source.read_on, marks, aim, source.size_bytes)
    shown_before = len(gathered.matches)
    chunks = source.read(offset, source.size_bytes)
    for hit in seeker.hits(blocks_of(chunks, line, offset, seeker.block_bytes_max)):
        before, after = _around(source, hit, wanted.context) if wanted.context else ((), ())
        match = Match(
            ref=source.ref,
            line=hit.line,
            offset=hit.offset,
            text=hit.text,
            before=before,
            after=after,
        )
        seeker.is_enough = not gathered.takes(match)
    gathered.count += seeker.count
    if not seeker.count:
        return
    gathered.whole.append(spent(0, source))
    gathered.names[source.ref] = source.name or ""
    gathered.notes += [f"{source.ref[:_SHORT_REF_CHARS]}: {note}" for note in source.notes]
    if wanted.is_count:
        gathered.counts.append(f"{source.ref}: {seeker.count}\n")
    elif len(gathered.matches) - shown_before < seeker.count:
        gathered.unshown_in = gathered.unshown_in or source.ref


def _around(source: Source, hit: Hit, context: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The lines before and after that of a match; no further than a window is read for them."""
    window = min(LINE_MARK_BYTES, 4 * MATCH_BYTES_SHOWN * context)
    start = max(0, hit.line_offset - window)
    raw = source.bytes_of(start, hit.line_offset)
    # One more than is shown, to know whether the first of them is whole.
    before = raw.rsplit(b"\n", context + 1)[:-1] if raw else []
    if len(before) > context or start:
        before = before[1:]  # Its beginning is not there.
    rest = source.bytes_of(hit.offset, min(hit.offset + window, source.size_bytes))
    after = rest.split(b"\n", context + 2)[1:]
    if after and (not after[-1] or hit.offset + len(rest) < source.size_bytes):
        after = after[:-1]
    return tuple(map(_short, before[-context:])), tuple(map(_short, after[:context]))


def _short(raw: bytes) -> str:
    """A line next to a match, its beginning if it is long."""
    cut = raw[:MATCH_BYTES_SHOWN].removesuffix(b"\r")
    return shown(text_of(cut)) + ("…" if len(raw) > MATCH_BYTES_SHOWN else "")


def _lines_of(match: Match) -> str:
    """A match as lines, as long as they can be."""
    return "".join(
        f"{match.line}- {line}\n" for line in (*match.before, match.text, *match.after, "--")
    )


def _found(gathered: _Gathered, is_complete: bool, is_one: bool) -> Found:
    wanted, matches = gathered.wanted, gathered.matches
    lines = gathered.counts if wanted.is_count and not is_one else _rendered(gathered, is_one)
    text, _ = fit_lines(lines, wanted.tokens_max)
    missing = 0 if wanted.is_count else gathered.count - len(matches)
    least = "" if is_complete else "at least "
    next_args = _next_args(gathered) if missing else {}
    if gathered.skipped_count > len(gathered.skipped):
        more = gathered.skipped_count - len(gathered.skipped)
        gathered.notes.append(f"{more} more were skipped")
    if not is_complete:
        is_many = gathered.count >= GREP_COUNTED_MAX
        why = f"{GREP_COUNTED_MAX:,} matches were counted" if is_many else "the time was over"
        gathered.notes.append(f"{why} before all was looked at")
    return Found(
        matches=matches,
        count=gathered.count,
        is_complete=is_complete,
        looked_at=gathered.looked_at,
        skipped=gathered.skipped,
        text=text,
        left_out=f"{least}{missing:,} more matches" if missing else "",
        next=_command(next_args, wanted) if next_args else "",
        next_args=next_args,
        notes=tuple(gathered.notes),
        spent=_all_spent(gathered, count_tokens(text)),
    )


def _rendered(gathered: _Gathered, is_one: bool) -> list[str]:
    """The matches as lines; a line that is next to two of them is there once."""
    lines: list[str] = []
    ref, last = "", 0
    matches = gathered.matches
    for index, match in enumerate(matches):
        if match.ref != ref:
            ref, last = match.ref, 0
            if not is_one:
                lines.append(
                    f"{ref[:_SHORT_REF_CHARS]} {gathered.names.get(ref, '')}".rstrip() + "\n"
                )
        first = match.line - len(match.before)
        if gathered.wanted.context and last and first > last + 1:
            lines.append("--\n")
        for number, text in enumerate(match.before, first):
            if number > last:
                lines.append(f"{number}- {text}\n")
        lines.append(f"{match.line}: {match.text}\n")
        last = match.line
        following = matches[index + 1] if index + 1 < len(matches) else None
        stop = following.line if following and following.ref == ref else 1 << 53
        for number, text in enumerate(match.after, match.line + 1):
            if number < stop:
                lines.append(f"{number}- {text}\n")
                last = number
    return lines


def _next_args(gathered: _Gathered) -> dict[str, Any]:
    """The call that gives the matches that were left out, in the first ref that has some."""
    ref = gathered.unshown_in
    shown_lines = [match.line for match in gathered.matches if match.ref == ref]
    args: dict[str, Any] = {"pattern": gathered.wanted.pattern, "ref": ref}
    if shown_lines:
        args["after_line"] = shown_lines[-1]
    for name in ("context", "ignore_case", "is_fixed"):
        if value := getattr(gathered.wanted, name):
            args[name] = value
    return args


def _command(args: dict[str, Any], wanted: Wanted) -> str:
    words = f"relay get {args['ref'][:_SHORT_REF_CHARS]} --grep {shlex.quote(wanted.pattern)}"
    words += f" --after-line {args['after_line']}" if "after_line" in args else ""
    words += f" --context {wanted.context}" if wanted.context else ""
    words += " --ignore-case" if wanted.ignore_case else ""
    return words + (" --fixed" if wanted.is_fixed else "")


def _all_spent(gathered: _Gathered, tokens: int) -> Spent:
    """The tokens that were given, and those of all bodies in which something was found."""
    is_measured = all(each.basis == "measured" for each in gathered.whole)
    return Spent(
        tokens=tokens,
        whole_tokens=max(tokens, sum(each.whole_tokens for each in gathered.whole)),
        basis="measured" if is_measured else "estimated",
        tokenizer=TOKENIZER_DEFAULT,
    )
