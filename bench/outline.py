"""Outlines: of 1 MB of each kind against parsing it once, and how that grows."""

from __future__ import annotations

import ast
import csv
import html.parser
import json
import random
import re
import statistics
import sysconfig
import time
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

from bench.measure import Curve, Result, each, flat, interleaved, within
from contextrelay.content.outline import outline
from contextrelay.content.source import Source
from contextrelay.model.artifact import ArtifactType

SIZE_BYTES = 1_000_000
WITHIN = 5
SECONDS_MAX = 0.3


def scenarios(folder: Path) -> Iterator[Result | Curve]:
    for label, kind, media_type, make, parse in KINDS:
        text = make(SIZE_BYTES)
        ours, anchor = interleaved(
            lambda text=text, kind=kind, media_type=media_type: _outlined(text, kind, media_type),
            lambda text=text, parse=parse: each(lambda _: parse(text), 1) / 1000,
        )
        name = f"outline of 1 MB of {label} / {parse.__doc__}"
        yield within(name, ours, anchor, "ms", WITHIN)
    seconds = {
        label: _used_s(make(5_000_000), kind, media_type)
        for label, kind, media_type, make, _ in KINDS
    }
    is_met = max(seconds.values()) <= SECONDS_MAX
    target = f"<= {SECONDS_MAX}"
    yield Curve("outline of 5 MB, processor time", "s", seconds, target, is_met)
    for label, kind, media_type, make, _ in KINDS:
        points = {
            f"{size:,}": _outlined(make(size), kind, media_type) / size * 1e6
            for size in (100_000, 1_000_000, 10_000_000)
        }
        yield flat(f"outline of {label}: time a MB over sizes", points, "ms", 3)


def _outlined(text: str, kind: ArtifactType, media_type: str) -> float:
    body = text.encode()
    source = each(lambda _: outline(Source.of(body, media_type, "", len(body)), kind), 1)
    return source / 1000


def _used_s(text: str, kind: ArtifactType, media_type: str) -> float:
    """The processor time of an outline, the median of five."""
    body = text.encode()
    taken: list[float] = []
    for _ in range(5):
        start_s = time.process_time()
        outline(Source.of(body, media_type, "", len(body)), kind)
        taken.append(time.process_time() - start_s)
    return statistics.median(taken)


def _records(size: int) -> str:
    lot = random.Random(1)
    rows: list[dict[str, object]] = []
    taken = 0
    while taken < size:
        row: dict[str, object] = {
            "id": len(rows),
            "name": f"user {lot.randrange(10_000)}",
            "email": f"u{lot.randrange(10_000)}@example.com",
            "score": lot.random(),
            "active": lot.random() < 0.5,
            "tags": [lot.choice("abcdef") for _ in range(lot.randrange(4))],
            "address": {"city": lot.choice(["Oslo", "Rome"]), "zip": lot.randrange(99_999)},
        }
        rows.append(row)
        taken += len(json.dumps(row)) + 2
    return json.dumps(rows)


def _program(size: int) -> str:
    part = '''
class Shape{n}(Base):
    """A shape."""

    def __init__(self, width: int, height: int = {n}) -> None:
        self.width = width
        self.height = height

    def area(self) -> int:
        """How large it is."""
        return self.width * self.height + sum(index for index in range(10) if index % 2)


def make_{n}(*parts: str, **options: object) -> Shape{n}:
    return Shape{n}(len(parts), len(options))
'''
    count = size // len(part)
    return "".join(part.replace("{n}", str(number)) for number in range(count))


def _log(size: int) -> str:
    lot = random.Random(2)
    lines: list[str] = []
    taken = 0
    while taken < size:
        second = len(lines) % 60
        level = "ERROR" if lot.random() < 0.01 else lot.choice(["INFO", "DEBUG", "WARN"])
        text = lot.choice(_MESSAGES).format(lot.randrange(10**6), lot.choice("abcdefgh"))
        lines.append(f"2026-01-05 10:{second:02}:{second:02},123 {level} [worker-{second}] {text}")
        taken += len(lines[-1]) + 1
    return "\n".join(lines)


_MESSAGES = (
    "request {} took 12 ms for user {}",
    "cache miss for key {}:{}",
    'GET /items/{}/{} HTTP/1.1" 200',
    "connection {} closed by {}",
    "retrying task {} in queue {}",
)


def _table(size: int) -> str:
    lot = random.Random(3)
    lines = ["id,name,city,amount,date,ok"]
    taken = 0
    while taken < size:
        number = len(lines)
        amount, day = lot.random() * 1000, number % 28 + 1
        lines.append(f'{number},"name {number}",Oslo,{amount:.2f},2026-01-{day:02},true')
        taken += len(lines[-1]) + 1
    return "\n".join(lines)


def _markdown(size: int) -> str:
    part = "## Part {n}\n\nSome *words* about [this](https://example.com/{n}) thing.\n\n"
    part += "```python\nprint({n})\n```\n\n- one\n- two\n\n"
    part += "A longer paragraph of text. " * 20 + "\n\n"
    return "".join(part.replace("{n}", str(number)) for number in range(size // len(part) + 1))


def _diff(size: int) -> str:
    part = "diff --git a/src/f{n}.py b/src/f{n}.py\n--- a/src/f{n}.py\n+++ b/src/f{n}.py\n"
    part += "@@ -1,5 +1,6 @@ def f():\n one\n-two\n+three\n+four\n five\n six\n seven\n"
    return "".join(part.replace("{n}", str(number)) for number in range(size // len(part) + 1))


def _page(size: int) -> str:
    part = "<h2 id=s{n}>Part {n}</h2>\n<p>Some <b>words</b> and a "
    part += "<a href='https://example.com/{n}'>link</a> &amp; more.</p>\n"
    part += "<ul><li>one</li><li>two</li></ul>\n" + "<p>Text of it.</p>\n" * 5
    body = "".join(part.replace("{n}", str(number)) for number in range(size // len(part) + 1))
    return f"<!doctype html><html><head><title>A page</title></head><body>{body}</body></html>"


def _prose(size: int) -> str:
    sentence = "It was a dark and stormy night, and the rain fell in torrents.\n"
    part = "PART {n}\n\n" + sentence * 12 + "\n"
    return "".join(part.replace("{n}", str(number)) for number in range(size // len(part) + 1))


def _loads(text: str) -> object:
    """json.loads"""
    return json.loads(text)


def _parsed(text: str) -> object:
    """ast.parse"""
    return ast.parse(text)


def _rows(text: str) -> object:
    """csv.reader"""
    return list(csv.reader(text.splitlines()))


def _tags(text: str) -> object:
    """html.parser"""
    parser = html.parser.HTMLParser()
    parser.feed(text)
    return parser


_LINE = re.compile(r"(\S+ \S+) (\w+) \[([^\]]+)\] (.*)|(\S*)\s*(.*)")


def _matched(text: str) -> object:
    """one pattern a line"""
    return [_LINE.match(line) for line in text.split("\n")]


_WORD = re.compile(r"\w+|[^\w\s]")


def _words(text: str) -> object:
    """words and signs by one pattern"""
    return _WORD.findall(text)


def _found(size: int, *patterns: str) -> str:
    """Files as they are on this machine, as often as it takes."""
    roots = (sysconfig.get_path("include"), sysconfig.get_path("purelib"), "/usr/include")
    texts: list[str] = []
    taken = 0
    for root, pattern in product(roots, patterns):
        for path in sorted(Path(root).glob(pattern)):
            if taken < size:
                texts.append(path.read_text("utf-8", "replace"))
                taken += len(texts[-1])
    text = "\n".join(texts) or "\n"
    return (text * (size // len(text) + 1))[:size]


def _c(size: int) -> str:
    return _found(size, "*.h", "cpython/*.h", "internal/*.h", "linux/*.h", "X11/*.h")


def _c_functions(size: int) -> str:
    part = """
/* Opens part {n}: see open_{n}() { and its like. */
static int open_{n}(struct part *part, const char *name, size_t length)
{
#ifdef HAVE_PARTS
    if (part == NULL || strcmp(name, "{none}") == 0) {
#else
    if (part == NULL) {
#endif
        for (size_t at = 0; at < length; at++) {
            if (name[at] == '{') {
                return -EINVAL; // Not a name.
            }
        }
    }
    /* What is open is counted, once for each
     * part, also where it was open before. */
    struct counter *counter = counter_of(part, name, length);
    while (counter != NULL && counter->next != counter) {
        switch (counter->kind) {
        case KIND_OPEN:
            counter->count += 1;
            break;
        default:
            log_warning("part %s is of kind %d", name, counter->kind);
            return -ENOENT;
        }
        counter = counter->next;
    }
    return printf("part {n}: %s\\n", name);
}
"""
    return "".join(part.replace("{n}", str(number)) for number in range(size // len(part) + 1))


def _script(size: int) -> str:
    part = """
/** Keeps part {n}: `class Part{n} {`. */
export class Part{n} extends Base {
  get name() { return `part ${this.id} of ${this.list.map((each) => each.name).join()} {`; }

  async load(options = { deep: true }) {
    const found = await this.store.get(options, (each) => /[{"']part\\d+/.test(each));
    if (found) { return found.filter((each) => { return each.size / 2 > 10; }); }
    for (const [key, value] of Object.entries(options)) {
      // Parts that are not 'there' yet are asked for again, and kept.
      const asked = { key, value, when: "later", tries: [1, 2, 3] };
      if (typeof value === "object" && value !== null) {
        this.waiting.push({ ...asked, parts: value.parts || [] });
      } else if (this.limit > 0 && this.waiting.length > this.limit) {
        throw new RangeError("too many parts (" + this.waiting.length + ") for " + key);
      } else {
        this.waiting.push(asked);
        this.counts[key] = (this.counts[key] || 0) + 1;
      }
    }
    return this.waiting.map((each) => each.key).sort();
  }
}

export const make{n} = (name, size = {n}) => new Part{n}({ name, size });
"""
    return "".join(part.replace("{n}", str(number)) for number in range(size // len(part) + 1))


def _readme(size: int) -> str:
    return _found(size, "**/*.md", "*.dist-info/METADATA")


def _packages(size: int) -> str:
    part = '[package.p{n}]\nversion = "1.{n}"\nhash = "{n}ab"\n\n'
    return "".join(part.replace("{n}", str(number)) for number in range(size // len(part)))


Kind = tuple[str, ArtifactType, str, Callable[[int], str], Callable[[str], object]]
KINDS: tuple[Kind, ...] = (
    ("JSON", "json", "application/json", _records, _loads),
    ("Python", "code", "text/x-python", _program, _parsed),
    ("C, headers as found", "code", "text/x-c", _c, _words),
    ("C", "code", "text/x-c", _c_functions, _words),
    ("JavaScript", "code", "text/javascript", _script, _words),
    ("tables", "csv", "text/csv", _table, _rows),
    ("logs", "log", "text/x-log", _log, _matched),
    ("Markdown", "markdown", "text/markdown", _markdown, _matched),
    ("Markdown as found", "markdown", "text/markdown", _readme, _matched),
    ("diffs", "diff", "text/x-diff", _diff, _matched),
    ("HTML", "html", "text/html", _page, _tags),
    ("TOML", "text", "application/toml", _packages, _matched),
    ("text", "text", "text/plain", _prose, _matched),
)
