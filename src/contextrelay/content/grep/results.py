"""Results of a grep: matches in any number of bodies, with context lines, within a budget.

Rule: everything is counted, shown or not: matches that did not fit, bodies that were skipped and
why, and whether the deadline ended the search.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from heapq import heappush, heappushpop
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from contextrelay.content.grep.match import (
    PATTERN_SCORE,
    LineMatch,
    LineSearcher,
    are_plain_texts,
    blocks_of,
    compile_any,
    cut_around,
    json_forms,
    score_of,
)
from contextrelay.content.grep.records import RecordQuery, Records, records, structured_type
from contextrelay.content.slicing.slice import spent
from contextrelay.content.slicing.source import (
    Marks,
    SliceSource,
    as_utf8,
    decode_bytes,
    find_marks,
    fit_lines,
    fit_text,
    offset_of_line,
    printable,
)
from contextrelay.content.tokens import TOKENIZER_DEFAULT, count_tokens
from contextrelay.errors import Broken, Gone, Invalid, NotFound
from contextrelay.limits import (
    GREP_COUNTED_MAX,
    GREP_QUICK_STEPS_MAX,
    GREP_RECORDS_BYTES_MAX,
    LINE_MARK_BYTES,
    MATCH_BYTES_SHOWN,
    MIB,
    PIECE_TOKENS_MAX,
)
from contextrelay.model.inspect import Found, Match, Skipped
from contextrelay.model.tokens import Spent

GREP_RECORDS_BODIES_MAX = 10
# Up to this size in bytes, lines are counted only for the matches shown, with the help of line
# offsets. In larger bodies, finding the offsets may take long.
GREP_UNCOUNTED_BYTES_MIN = MIB
GREP_UNCOUNTED_BYTES_MAX = 64 * MIB

SHORT_REF_CHARS = 8
# Lines longer than this are searched only around their matches.
_LINE_BYTES = 8_192
_ROOM_TOKENS = 4
_WHOLE_TRIES = 8
_SKIPPED_MAX = 100
_HEAD_BYTES = 1_024
_PLACES = "counted places in long lines instead of records"
_BY_LINES = "searched by line, not by record: "
_TOO_LARGE = f"{_BY_LINES}larger than {GREP_RECORDS_BYTES_MAX // MIB} MiB"

# Searches the records of a body, within limits.
ByRecords = Callable[[RecordQuery, bytes], Records]


def grep_bodies(
    sources: Iterable[SliceSource | Skipped],
    query: GrepQuery,
    is_over: Callable[[], bool],
    is_one: bool = False,
    by_records: ByRecords = records,
) -> Found:
    """Search sources for the patterns of a query, one after the other, until the deadline.

    The search also ends early if there are too many matches to count.

    Raises:
        Invalid: the pattern is invalid.
    """
    pattern = compile_any(query.patterns, query.ignore_case, query.is_fixed)
    gathered = GrepMatches(query, is_one)
    is_complete = True
    for source in sources:
        if is_over() or gathered.count >= GREP_COUNTED_MAX:
            is_complete = False
            break
        if isinstance(source, Skipped):
            gathered.skip(source.ref, source.why)
            continue
        searcher = LineSearcher(pattern, is_over, GREP_COUNTED_MAX - gathered.count)
        try:
            if not _found_records(as_utf8(source), pattern, gathered, by_records, is_over):
                _look_into(as_utf8(source), searcher, gathered)
        except Invalid as binary:
            gathered.skip(source.ref, binary.message)
        except (Broken, NotFound, Gone) as error:
            # A damaged or removed body is skipped, unless it is the only one.
            if is_one:
                raise
            ref = source.ref
            gathered.skip(ref, f"{ref[:SHORT_REF_CHARS]} cannot be read: {error.message}")
        is_complete = is_complete and searcher.is_complete
    gathered.add_ranked()
    return _found(gathered, is_complete, is_one)


def _found_records(
    source: SliceSource,
    pattern: Any,
    gathered: GrepMatches,
    by_records: ByRecords,
    is_over: Callable[[], bool],
) -> bool:
    """Search structured content by record; return False if it has to be searched by line."""
    query = gathered.query
    if (
        not query.shows_records
        or source.size_bytes > GREP_RECORDS_BYTES_MAX
        or gathered.record_bodies >= GREP_RECORDS_BODIES_MAX
    ):
        return False
    head = source.bytes_of(0, min(_HEAD_BYTES, source.size_bytes))
    kind = structured_type(source.type, source.media_type, head)
    if kind is None:
        return False
    # This first search only looks for any match, and checks the clock.
    if kind == "json" and are_plain_texts(query.patterns, query.is_fixed):
        # Every form in which JSON may encode the patterns.
        forms = [form for each in query.patterns for form in json_forms(each)]
        pattern = compile_any(forms, query.ignore_case, is_fixed=True)
    searcher = LineSearcher(pattern, is_over, 1)
    chunks = source.read(0, source.size_bytes)
    first = next(searcher.hits(blocks_of(chunks, 0, most=searcher.block_bytes_max)), None)
    if first is None:
        gathered.looked_at += searcher.is_complete
        return searcher.is_complete
    body = source.bytes_of(0, source.size_bytes)
    gathered.record_bodies += 1
    asked = RecordQuery(
        patterns=query.patterns,
        ignore_case=query.ignore_case,
        is_fixed=query.is_fixed,
        type=kind,
        media_type=source.media_type,
        records_max=query.matches_max,
        tokens_max=query.tokens_max,
    )
    found = by_records(asked, body)
    if found.found is None:
        if found.why:
            gathered.add_note(source, f"{_BY_LINES}{found.why}")
        return False
    gathered.looked_at += 1
    if found.why:
        gathered.is_counted = False
        gathered.add_note(source, found.why)
    shown_before = len(gathered.matches)
    for each in found.found:
        at, text = each.offset, each.text
        match = Match(ref=source.ref, line=each.line, offset=at, text=text, pointer=each.pointer)
        if gathered.is_ranked:
            gathered.rank(each.score, None, match)
        elif not gathered.add_if_fits(match):
            break
    _count(source, found.count, shown_before, gathered)
    return True


def _note_records(source: SliceSource, gathered: GrepMatches, note: str) -> bool:
    """If the body has records but was searched by line, add a note and return True."""
    head = source.bytes_of(0, min(_HEAD_BYTES, source.size_bytes))
    if structured_type(source.type, source.media_type, head) is None:
        return False
    gathered.add_note(source, note)
    return True


def _look_into(source: SliceSource, searcher: LineSearcher, gathered: GrepMatches) -> None:
    query = gathered.query
    gathered.looked_at += 1
    searcher.is_enough = gathered.is_full
    searcher.needs_several, searcher.needs_words = gathered.needs_several, gathered.needs_words
    offset, line = 0, 1
    if query.after_line:
        marks = source.marks() if source.size_bytes > 2 * LINE_MARK_BYTES else None
        aim = query.after_line + 1
        offset, line = offset_of_line(source.read_on, marks, aim, source.size_bytes)
    if GREP_UNCOUNTED_BYTES_MIN < source.size_bytes <= GREP_UNCOUNTED_BYTES_MAX:
        line = 0  # Line numbers are computed only for the matches shown.
    shown_before = len(gathered.matches)
    chunks = source.read(offset, source.size_bytes)
    for hit in searcher.hits(blocks_of(chunks, line, offset, searcher.block_bytes_max)):
        if gathered.is_ranked:
            gathered.rank_line(source, hit)
            searcher.needs_several = gathered.needs_several
            searcher.needs_words = gathered.needs_words
        else:
            searcher.is_enough = not gathered.add_if_fits(gathered.match(source, hit))
    if searcher.count and source.size_bytes > GREP_RECORDS_BYTES_MAX and query.shows_records:
        _note_records(source, gathered, _TOO_LARGE)
    if searcher.has_places and _note_records(source, gathered, _PLACES):
        gathered.is_counted = False
    _count(source, searcher.count, shown_before, gathered)


def _count(source: SliceSource, count: int, shown_before: int, gathered: GrepMatches) -> None:
    gathered.count += count
    if not count:
        return
    gathered.whole.append(spent(0, source))
    gathered.names[source.ref] = source.name or ""
    for note in source.notes:
        gathered.add_note(source, note)
    if gathered.query.is_count:
        gathered.counts.append(f"{source.ref}: {count}\n")
    elif not gathered.is_ranked and len(gathered.matches) - shown_before < count:
        gathered.unshown_in = gathered.unshown_in or source.ref


def _found(gathered: GrepMatches, is_complete: bool, is_one: bool) -> Found:
    query, matches = gathered.query, gathered.matches
    is_measured = all(each.basis == "measured" for each in gathered.whole)
    lines = gathered.counts if query.is_count and not is_one else _rendered(gathered, is_one)
    text, _ = fit_lines(lines, query.tokens_max)
    missing = 0 if query.is_count else gathered.count - len(matches)
    least = "" if is_complete and gathered.is_counted else "at least "
    next_args = _next_args(gathered) if missing else {}
    if gathered.skipped_count > len(gathered.skipped):
        more = gathered.skipped_count - len(gathered.skipped)
        gathered.notes.append(f"{more} more skipped")
    if not is_complete:
        is_many = gathered.count >= GREP_COUNTED_MAX
        why = f"stopped at {GREP_COUNTED_MAX:,} matches" if is_many else "stopped at the time limit"
        gathered.notes.append(f"{why}: the search is incomplete")
    return Found(
        matches=matches,
        count=gathered.count,
        is_complete=is_complete and gathered.is_counted,
        looked_at=gathered.looked_at,
        skipped=gathered.skipped,
        text=text,
        left_out=f"{least}{missing:,} more matches" if missing else "",
        next=_command(next_args, query) if next_args else "",
        next_args=next_args,
        notes=tuple(gathered.notes),
        spent=Spent(
            tokens=(tokens := count_tokens(text)),
            whole_tokens=max(tokens, sum(each.whole_tokens for each in gathered.whole)),
            basis="measured" if is_measured else "estimated",
            tokenizer=TOKENIZER_DEFAULT,
        ),
    )


def _rendered(gathered: GrepMatches, is_one: bool) -> list[str]:
    """Return the matches as lines. A context line shared by two matches appears once."""
    lines: list[str] = []
    ref, last = "", 0
    matches = gathered.matches
    for index, match in enumerate(matches):
        if match.ref != ref or match.line < last:
            last = 0
        if match.ref != ref:
            ref = match.ref
            if not is_one:
                head = f"{ref[:SHORT_REF_CHARS]} {gathered.names.get(ref, '')}"
                lines.append(head.rstrip() + "\n")
        first = match.line - len(match.before)
        if gathered.query.context and last and first > last + 1:
            lines.append("--\n")
        for number, text in enumerate(match.before, first):
            if number > last:
                lines.append(f"{number}- {text}\n")
        lines.append(f"{match.line}: {match.text}\n")
        last = match.line
        following = matches[index + 1] if index + 1 < len(matches) else None
        is_below = following is not None and following.ref == ref and following.line >= last
        stop = following.line if following and is_below else 1 << 53
        for number, text in enumerate(match.after, match.line + 1):
            if number < stop:
                lines.append(f"{number}- {text}\n")
                last = number
    return lines


def _next_args(gathered: GrepMatches) -> dict[str, Any]:
    """Return the arguments of `grep` for the omitted matches, in the first ref that has some."""
    ref = gathered.unshown_in
    shown = [match for match in gathered.matches if match.ref == ref]
    args: dict[str, Any] = {"pattern": gathered.query.pattern, "ref": ref}
    if gathered.is_ranked or (shown and shown[-1].pointer is not None):
        # For ranked results, only a larger budget shows more matches.
        args["tokens_max"] = min(4 * gathered.query.tokens_max, PIECE_TOKENS_MAX)
    elif shown:
        args["after_line"] = shown[-1].line
    for name in ("context", "ignore_case", "is_fixed"):
        if value := getattr(gathered.query, name):
            args[name] = value
    return args


def _command(args: dict[str, Any], query: GrepQuery) -> str:
    words = [f"relay get {args['ref'][:SHORT_REF_CHARS]}"]
    words += [f"--grep {shlex.quote(each)}" for each in query.patterns]
    for name in ("tokens_max", "after_line", "context"):
        words += [f"--{name.replace('_', '-')} {args[name]}"] if name in args else []
    words += ["--ignore-case"] * query.ignore_case + ["--fixed"] * query.is_fixed
    return " ".join(words)


class GrepQuery(Struct, frozen=True, kw_only=True):
    """The patterns to search for, and how much to show."""

    pattern: str | tuple[str, ...]
    ignore_case: bool = False
    is_fixed: bool = False
    context: int = 0
    is_count: bool = False
    after_line: int = 0
    matches_max: int
    tokens_max: int

    @property
    def patterns(self) -> tuple[str, ...]:
        return (self.pattern,) if isinstance(self.pattern, str) else self.pattern

    @property
    def shows_records(self) -> bool:
        """Whether to show records where possible."""
        return not (self.context or self.is_count or self.after_line)


class GrepMatches:
    """The matches found so far."""

    def __init__(self, query: GrepQuery, is_one: bool = False) -> None:
        self.query = query
        self._is_one = is_one  # Whether all matches are in one body, so that its name is not shown.
        self.matches: list[Match] = []
        self.names: dict[str, str] = {}
        self.count = self.looked_at = self.skipped_count = self.record_bodies = 0
        self.skipped: list[Skipped] = []
        self.notes: list[str] = []
        self.counts: list[str] = []
        self.whole: list[Spent] = []
        self.tokens_left = query.tokens_max
        self.is_full = query.is_count
        self.is_counted = True
        """Whether the count includes all matching records; if False, the count is a minimum."""
        self.unshown_in = ""  # The first ref with matches that are not shown.
        self.is_ranked = len(query.patterns) > 1 and not query.is_count
        """Whether the best matches are shown instead of the first ones."""
        self._best: list[tuple[int, int, SliceSource | None, LineMatch | Match]] = []
        self._order = 0
        compiled = [
            compile_any((each,), query.ignore_case, query.is_fixed) for each in query.patterns
        ]
        self._searches = [each.search for each in compiled]
        self._is_quick = sum(each.programsize for each in compiled) <= GREP_QUICK_STEPS_MAX
        self._lines: set[tuple[str, int]] = set()
        self._marks: dict[str, Marks] = {}

    def skip(self, ref: str, why: str) -> None:
        self.skipped_count += 1
        if len(self.skipped) < _SKIPPED_MAX:
            self.skipped.append(Skipped(ref=ref, why=why))

    def add_note(self, source: SliceSource, note: str) -> None:
        self.notes.append(f"{source.ref[:SHORT_REF_CHARS]}: {note}")

    def match(self, source: SliceSource, hit: LineMatch) -> Match:
        """Return a match with its context lines."""
        context = self.query.context
        before, after = _around(source, hit, context) if context else ((), ())
        line = hit.line
        if not line:
            marks = self._marks.get(source.ref)
            if marks is None:
                size_bytes = source.size_bytes
                marks = source.marks() or find_marks(source.read(0, size_bytes), size_bytes)
                self._marks[source.ref] = marks
            line, place = marks.before_offset(hit.line_offset)
            line += source.bytes_of(place, hit.line_offset).count(b"\n")
        match = Match(ref=source.ref, line=line, offset=hit.offset, text=hit.text)
        return replace(match, before=before, after=after) if context else match

    def add_if_fits(self, match: Match) -> bool:
        """Add a match if it fits. After the first match that does not fit, no more are added."""
        if not self.is_full:
            match = match if self.matches else self._shortened(match)
            cost = count_tokens(_lines_of(match, self.query.context) + self._head(match))
            is_over = cost + 1 > self.tokens_left
            self.is_full = is_over or len(self.matches) >= self.query.matches_max
            self.tokens_left -= cost + 1
        if self.is_full:
            self.unshown_in = self.unshown_in or match.ref
            return False
        self.matches.append(match)
        return True

    def _shortened(self, match: Match) -> Match:
        """Shorten the first match to fit: remove its context lines, then cut its text."""
        if (match.before or match.after) and (
            count_tokens(_lines_of(match, self.query.context)) > self.tokens_left // 2
        ):
            match = replace(match, before=(), after=())
        around = count_tokens(_lines_of(replace(match, text=""), 0) + self._head(match))
        room_tokens = self.tokens_left - around - _ROOM_TOKENS
        if count_tokens(match.text) <= room_tokens:
            return match
        text = match.text
        if match.pointer is None:
            chars = 4 * max(1, room_tokens)
            while count_tokens(text) > room_tokens and chars > 4:
                text = cut_around(match.text, self._searches, chars)
                chars = chars * 9 // 10
        return replace(match, text=fit_text(text, max(1, room_tokens)))

    def _head(self, match: Match) -> str:
        """Return the longest possible heading line for the body of a match."""
        is_new = not self.matches or self.matches[-1].ref != match.ref
        return f"{match.ref} {match.line}" if is_new and not self._is_one else ""

    # Ranking for several patterns

    def rank_line(self, source: SliceSource, hit: LineMatch) -> None:
        """Keep a line if it is among the best so far, by the number of patterns in it."""
        at = hit.offset - hit.line_offset
        if hit.is_folded and self._is_quick and at < _LINE_BYTES:
            stop = min(hit.line_offset + _LINE_BYTES, source.size_bytes)
            raw = source.bytes_of(hit.line_offset, stop)
            end = raw.find(b"\n", at)
            if end >= 0 or stop == source.size_bytes:
                if (source.ref, hit.line_offset) in self._lines:
                    return  # This line was already seen at an earlier match.
                self._lines.add((source.ref, hit.line_offset))
                text = printable(decode_bytes(raw[:end] if end >= 0 else raw)).removesuffix("\r")
                hit = replace(hit, text=text)
        raw = hit.text.encode("utf-8", "replace")
        tries = _WHOLE_TRIES if self._is_quick else 1
        self.rank(score_of(raw, self._searches, tries), source, hit)

    def rank(self, score: int, source: SliceSource | None, found: LineMatch | Match) -> None:
        """Keep a line or record if it is among the best so far, by the patterns in it."""
        self._order += 1
        entry = (score, -self._order, source, found)
        if len(self._best) < self.query.matches_max:
            heappush(self._best, entry)
        else:
            heappushpop(self._best, entry)

    @property
    def needs_several(self) -> bool:
        """Whether a line must have several patterns, or a whole word, to rank among the best."""
        return self.is_ranked and len(self._best) >= max(1, self.query.matches_max)

    @property
    def needs_words(self) -> bool:
        """Whether a line with a single pattern as a whole word can still rank among the best."""
        return bool(self._best) and self._best[0][0] <= PATTERN_SCORE

    def add_ranked(self) -> None:
        """Add the best matches to those shown: by number of patterns, then in order."""
        for _, _, source, found in sorted(self._best, key=lambda each: each[:2], reverse=True):
            if isinstance(found, LineMatch):
                assert source is not None
                if self.matches and len(found.text) > MATCH_BYTES_SHOWN:
                    text = cut_around(found.text, self._searches, MATCH_BYTES_SHOWN)
                    found = replace(found, text=text)
                found = self.match(source, found)
            if not self.add_if_fits(found):
                return


def _around(
    source: SliceSource, hit: LineMatch, context: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the lines before and after a match, reading at most one window each."""
    window = min(LINE_MARK_BYTES, 4 * MATCH_BYTES_SHOWN * context)
    start = max(0, hit.line_offset - window)
    raw = source.bytes_of(start, hit.line_offset)
    # Read one line more than is shown, to know whether the first line is complete.
    before = raw.rsplit(b"\n", context + 1)[:-1] if raw else []
    if len(before) > context or start:
        before = before[1:]  # The beginning of this line is missing.
    rest = source.bytes_of(hit.offset, min(hit.offset + window, source.size_bytes))
    after = rest.split(b"\n", context + 2)[1:]
    if after and (not after[-1] or hit.offset + len(rest) < source.size_bytes):
        after = after[:-1]
    return tuple(map(_short, before[-context:])), tuple(map(_short, after[:context]))


def _short(raw: bytes) -> str:
    cut = raw[:MATCH_BYTES_SHOWN].removesuffix(b"\r")
    return printable(decode_bytes(cut)) + ("…" if len(raw) > MATCH_BYTES_SHOWN else "")


def _lines_of(match: Match, context: int) -> str:
    parting = ("--",) if context else ()
    lines = (*match.before, match.text, *match.after, *parting)
    return "".join(f"{match.line}- {line}\n" for line in lines)
