"""Measure packing against the algorithm of the PyContext article: `python -m bench.context`."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from pathlib import Path

from msgspec.json import encode

from bench.context.windows import Line, lines, plot

_BLOCKS_MAX = 1_000_000


def _sizes(text: str) -> tuple[int, ...]:
    try:
        sizes = tuple(int(each) for each in text.split(","))
    except ValueError:
        sizes = ()
    if not sizes or not all(20 <= size <= _BLOCKS_MAX for size in sizes):
        raise ArgumentTypeError(
            f"invalid sizes {text!r}: expected 100,1000 (20 to {_BLOCKS_MAX:,})"
        )
    return sizes


def main() -> None:
    """Measure add, format, prune, relevance, pack and export; print a table or JSON."""
    parser = ArgumentParser(prog="python -m bench.context", description=main.__doc__)
    parser.add_argument(
        "--sizes", type=_sizes, default=(100, 1_000, 10_000, 100_000), help="numbers of blocks"
    )
    parser.add_argument(
        "--article-max", type=int, default=10_000, help="largest size for the article's algorithm"
    )
    parser.add_argument("--out", type=Path, help="folder for plots (PNG and SVG)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args()
    done: list[Line] = []
    if not args.json:
        head = f"{'operation':10} {'blocks':>8} {'mean':>12} {'p95':>12} {'tokens/s':>12}"
        print(f"{head} {'article':>12} {'ratio':>9}")
    for line in lines(args.sizes, args.article_max):
        done.append(line)
        if not args.json:
            print(_row(line), f"  {line.note}" if line.note else "", flush=True)
    files = [str(file) for file in plot(done, args.out)] if args.out else []
    print(encode({"lines": done, "plots": files}).decode() if args.json else "\n".join(files))


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


if __name__ == "__main__":
    main()
