"""bench context: packing measured on this machine, against the way of the article."""

from __future__ import annotations

from argparse import ArgumentTypeError, Namespace

from contextrelay.cli.console import Console
from contextrelay.cli.parser import arg, takes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextrelay.bench.windows import Line

_BLOCKS_MAX = 1_000_000


def _sizes(text: str) -> tuple[int, ...]:
    try:
        sizes = tuple(int(each) for each in text.split(","))
    except ValueError:
        sizes = ()
    if not sizes or not all(20 <= size <= _BLOCKS_MAX for size in sizes):
        raise ArgumentTypeError(f"{text!r} are no sizes: write 100,1000 (20 to {_BLOCKS_MAX:,})")
    return sizes


@takes(
    arg(
        "--sizes",
        type=_sizes,
        default=(100, 1_000, 10_000, 100_000),
        metavar="N,N",
        help="how many blocks (100,1000,10000,100000)",
    ),
    arg(
        "--article-max",
        type=int,
        default=10_000,
        metavar="N",
        help="the article's way only up to so many blocks (10,000, where it takes a minute)",
    ),
    arg("--out", metavar="FOLDER", help="write plots there: PNG and SVG"),
)
def bench_context(args: Namespace, console: Console) -> None:
    """Measure add, format, prune, relevance, pack and export; ours against the article's way."""
    from contextrelay.bench.windows import lines

    done: list[Line] = []
    if not console.is_json:
        head = f"{'operation':10} {'blocks':>8} {'mean':>12} {'p95':>12} {'tokens/s':>12}"
        console.show(f"{head} {'article':>12} {'ratio':>9}")
    for line in lines(args.sizes, args.article_max):
        done.append(line)
        if not console.is_json:
            console.show(_row(line))
            if line.note:
                console.note(f"  {line.operation} at {line.blocks:,}: {line.note}")
    files: list[str] = []
    if args.out:
        from pathlib import Path

        from contextrelay.bench.windows import plot

        files = [str(file) for file in plot(done, Path(args.out))]
    if console.is_json:
        console.answer({"lines": done, "plots": files}, "")
    else:
        console.show("\n".join(files))


def _row(line: Line) -> str:
    article = "–" if line.article_mean_s is None else _time(line.article_mean_s)
    ratio = "–" if line.ratio is None else f"{line.ratio:,.1f}x"
    rate = f"{line.tokens_per_second:,.0f}"
    return (
        f"{line.operation:10} {line.blocks:>8,} {_time(line.mean_s):>12} {_time(line.p95_s):>12}"
        f" {rate:>12} {article:>12} {ratio:>9}"
    )


def _time(seconds: float) -> str:
    for unit, factor in (("s", 1), ("ms", 1e3), ("us", 1e6)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.2f} {unit}"
    return f"{seconds * 1e6:.3f} us"
