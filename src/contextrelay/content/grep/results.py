"""Results of a grep: matches in any number of bodies, with context lines, within a budget.

Rule: everything is counted, shown or not: matches that did not fit, bodies that were skipped and
why, and whether the deadline ended the search.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from typing import Any

from contextrelay.content.grep.gathered import SHORT_REF_CHARS, GrepMatches, GrepQuery
from contextrelay.content.grep.match import (
    LineSearcher,
    blocks_of,
    compile_any,
    is_plain,
    spellings,
)
from contextrelay.content.grep.records import MatchedRecord, Records, records, structured_type
from contextrelay.content.grep.records import RecordQuery as RecordsWanted
from contextrelay.content.slicing.slice import spent
from contextrelay.content.slicing.source import SliceSource, as_utf8, fit_lines, offset_of_line
from contextrelay.content.tokens import TOKENIZER_DEFAULT, count_tokens
from contextrelay.errors import Broken, Gone, Invalid, NotFound
from contextrelay.limits import (
    GREP_COUNTED_MAX,
    GREP_RECORDS_BYTES_MAX,
    LINE_MARK_BYTES,
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


# Maximum length of one record, from the token budget: about half of the budget.
_RECORD_CHARS_MIN, _RECORD_CHARS_MAX = 200, 2_000
_HEAD_TOKENS = 7
_HEAD_BYTES = 1_024
_PLACES = "counted places in long lines instead of records"
_BY_LINES = "searched by line, not by record: "
_TOO_LARGE = f"{_BY_LINES}larger than {GREP_RECORDS_BYTES_MAX // MIB} MiB"

ByRecords = Callable[[RecordsWanted, bytes], Records]
"""A function that searches the records of a body, within limits."""


def find(
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
    searcher = LineSearcher(_in_json(query) if kind == "json" else pattern, is_over, 1)
    chunks = source.read(0, source.size_bytes)
    first = next(searcher.hits(blocks_of(chunks, 0, most=searcher.block_bytes_max)), None)
    if first is None:
        gathered.looked_at += searcher.is_complete
        return searcher.is_complete
    body = source.bytes_of(0, source.size_bytes)
    gathered.record_bodies += 1
    chars = min(max(2 * query.tokens_max, _RECORD_CHARS_MIN), _RECORD_CHARS_MAX)
    asked = RecordsWanted(
        patterns=query.patterns,
        ignore_case=query.ignore_case,
        is_fixed=query.is_fixed,
        type=kind,
        media_type=source.media_type,
        records_max=query.matches_max,
        chars_max=chars,
        best_chars_max=2 * chars,
        all_chars_max=10 * query.tokens_max + chars,
        tokens_max=query.tokens_max - _HEAD_TOKENS,
    )
    found = by_records(asked, body)
    if found.found is None:
        if found.why:
            short = source.ref[:SHORT_REF_CHARS]
            gathered.notes.append(f"{short}: {_BY_LINES}{found.why}")
        return False
    gathered.looked_at += 1
    if found.why:
        gathered.is_counted = False
        gathered.notes.append(f"{source.ref[:SHORT_REF_CHARS]}: {found.why}")
    shown_before = len(gathered.matches)
    for each in found.found:
        match = _match(source.ref, each)
        if gathered.is_ranked:
            gathered.rank_record(each.score, match)
        elif not gathered.add_if_fits(match):
            break
    _count(source, found.count, shown_before, gathered)
    return True


def _match(ref: str, each: MatchedRecord) -> Match:
    return Match(ref=ref, line=each.line, offset=each.offset, text=each.text, pointer=each.pointer)


def _note_records(source: SliceSource, gathered: GrepMatches, note: str) -> bool:
    """Add a note if the body has records but was searched by line. Return True if the note was
    added.
    """
    head = source.bytes_of(0, min(_HEAD_BYTES, source.size_bytes))
    if structured_type(source.type, source.media_type, head) is None:
        return False
    gathered.notes.append(f"{source.ref[:SHORT_REF_CHARS]}: {note}")
    return True


def _in_json(query: GrepQuery) -> Any:
    """Compile the patterns, with every form in which JSON may encode them."""
    forms, is_fixed = query.patterns, query.is_fixed
    if is_plain(forms, is_fixed):
        forms, is_fixed = [form for each in forms for form in spellings(each)], True
    return compile_any(forms, query.ignore_case, is_fixed)


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
    """Record the number of matches in a source, and whether all of them are shown."""
    gathered.count += count
    if not count:
        return
    gathered.whole.append(spent(0, source))
    gathered.names[source.ref] = source.name or ""
    gathered.notes += [f"{source.ref[:SHORT_REF_CHARS]}: {note}" for note in source.notes]
    if gathered.query.is_count:
        gathered.counts.append(f"{source.ref}: {count}\n")
    elif not gathered.is_ranked and len(gathered.matches) - shown_before < count:
        gathered.unshown_in = gathered.unshown_in or source.ref


def _found(gathered: GrepMatches, is_complete: bool, is_one: bool) -> Found:
    query, matches = gathered.query, gathered.matches
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
        spent=_all_spent(gathered, count_tokens(text)),
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
                lines.append(
                    f"{ref[:SHORT_REF_CHARS]} {gathered.names.get(ref, '')}".rstrip() + "\n"
                )
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
    """Return the arguments of `grep` that show the omitted matches, in the first ref that has
    some.
    """
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
    patterns = "".join(f" --grep {shlex.quote(each)}" for each in query.patterns)
    words = f"relay get {args['ref'][:SHORT_REF_CHARS]}{patterns}"
    words += f" --tokens-max {args['tokens_max']}" if "tokens_max" in args else ""
    words += f" --after-line {args['after_line']}" if "after_line" in args else ""
    words += f" --context {query.context}" if query.context else ""
    words += " --ignore-case" if query.ignore_case else ""
    return words + (" --fixed" if query.is_fixed else "")


def _all_spent(gathered: GrepMatches, tokens: int) -> Spent:
    """Return the number of tokens of the reply, and of all bodies with matches."""
    is_measured = all(each.basis == "measured" for each in gathered.whole)
    return Spent(
        tokens=tokens,
        whole_tokens=max(tokens, sum(each.whole_tokens for each in gathered.whole)),
        basis="measured" if is_measured else "estimated",
        tokenizer=TOKENIZER_DEFAULT,
    )
