"""Plots of the context benchmark: how each operation grows, ours and the article's."""

from __future__ import annotations

from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any

from contextrelay.doors.bench.windows import Line
from contextrelay.errors import Unavailable
from contextrelay.store.durable_files import write_whole


def plot(lines: list[Line], folder: Path) -> list[Path]:
    """Draw the lines as PNG and SVG into a folder; the files.

    Raises:
        Unavailable: matplotlib is not installed.
    """
    try:
        matplotlib: Any = import_module("matplotlib")
        matplotlib.use("Agg")
        plots: Any = import_module("matplotlib.pyplot")
    except ImportError as error:
        raise Unavailable(
            "matplotlib is not installed", "pip install 'contextrelay[plots]'"
        ) from error
    names = list(dict.fromkeys(line.operation for line in lines))
    figure, axes = plots.subplots(2, -(-len(names) // 2), figsize=(14, 7), squeeze=False)
    for axis, name in zip(axes.flat, names, strict=False):
        some = [line for line in lines if line.operation == name]
        axis.plot([line.blocks for line in some], [line.mean_s * 1e3 for line in some], "o-")
        both = [(line.blocks, line.article_mean_s * 1e3) for line in some if line.article_mean_s]
        if both:
            axis.plot([each[0] for each in both], [each[1] for each in both], "s--")
        axis.set_title(name)
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xlabel("blocks")
        axis.set_ylabel("ms, mean")
        axis.legend(["ours", "the article's"][: 1 + bool(both)])
        axis.grid(visible=True, alpha=0.3)
    figure.tight_layout()
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"context.{form}" for form in ("png", "svg")]
    for file in files:
        drawn = BytesIO()
        figure.savefig(drawn, format=file.suffix[1:])
        # A link that stands there is replaced, not written through.
        write_whole(file, [drawn.getvalue()])
    plots.close(figure)
    return files
