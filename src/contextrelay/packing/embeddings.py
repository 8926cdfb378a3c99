"""Embeddings: the topics of blocks as vectors, and their similarity to a query.

The topic of a block includes its neighbours: their vectors are added to the vector of the block,
with weights that decrease with distance. The mean of all blocks carries no information and is
subtracted first.

Rule: a text is embedded once, at the first query after it was added, in one batch with other new
texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from contextrelay.errors import Invalid

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray

Embed = Callable[[Sequence[str]], Sequence[Sequence[float]]]
"""A function that returns a vector for each text; all vectors have the same length."""

Run = Sequence[str | None]  # Names of consecutive texts; None stands for a removed text.


class Vectors:
    """A collection of named texts with their vectors."""

    def __init__(self, embed: Embed, lent: Sequence[float]) -> None:
        self._embed = embed
        self._neighbour_weights = lent  # The weights of neighbours, nearest first.
        self._waiting: dict[str, str] = {}
        self._rows: dict[str, int] = {}
        self._matrix: NDArray[float32] | None = None
        self._topics: tuple[NDArray[float32], NDArray[float32]] | None = None
        """The topic of each text by row, and their mean; None after a change."""

    def add(self, name: str, text: str) -> None:
        """Add a text, or replace the text with the same name."""
        self._waiting[name] = text
        self._topics = None

    def remove(self, name: str) -> None:
        self._waiting.pop(name, None)
        self._rows.pop(name, None)
        self._topics = None

    def near(self, text: str, runs: Iterable[Run]) -> dict[str, float]:
        """Return a dict that maps names of texts to their similarity to the query `text`; the
        nearest has 1.

        The similarity includes the neighbours of a text. `runs`: the sequences of consecutive
        texts.

        Raises:
            Invalid: the embedding does not return vectors of one length.
        """
        self._embed_new()
        if self._matrix is None or not self._rows:
            return {}
        if self._topics is None:
            self._topics = self._about(self._matrix, runs)
        topics, mean = self._topics
        rows = list(self._rows.values())
        similarity = (topics @ _unit(self._embed_all([text]) - mean)[0])[rows]
        lowest, highest = similarity.min(), similarity.max()
        shares = ((similarity - lowest) / max(highest - lowest, 1e-6)).tolist()
        return dict(zip(self._rows, shares, strict=True))

    def _about(
        self, matrix: NDArray[float32], runs: Iterable[Run]
    ) -> tuple[NDArray[float32], NDArray[float32]]:
        import numpy

        mean = matrix[list(self._rows.values())].mean(axis=0)
        own = matrix - mean
        about = own.copy()
        for run in runs:
            rows = numpy.array([self._rows.get(name or "", -1) for name in run])
            there = rows >= 0
            given = numpy.where(there[:, None], own[rows], 0)
            summed = given.copy()
            for offset, share in enumerate(self._neighbour_weights, 1):
                summed[offset:] += share * given[:-offset]
                summed[:-offset] += share * given[offset:]
            about[rows[there]] = summed[there]
        return _unit(about), mean

    def _embed_new(self) -> None:
        import numpy

        if not self._waiting:
            return
        made = self._embed_all(list(self._waiting.values()))
        start = 0 if self._matrix is None else len(self._matrix)
        self._matrix = made if self._matrix is None else numpy.concatenate((self._matrix, made))
        self._rows.update({name: start + index for index, name in enumerate(self._waiting)})
        self._waiting.clear()
        # More than half of the rows belong to replaced texts.
        if len(self._matrix) > 2 * len(self._rows) + 64:
            self._matrix = self._matrix[list(self._rows.values())]
            self._rows = {name: row for row, name in enumerate(self._rows)}

    def _embed_all(self, texts: list[str]) -> NDArray[float32]:
        import numpy

        made = numpy.asarray(self._embed(texts), dtype=numpy.float32)
        width = made.shape[1] if made.ndim == 2 else 0
        fits = self._matrix is None or self._matrix.shape[1] == width
        if made.shape != (len(texts), width) or not width or not fits:
            raise Invalid(
                f"the embedding returned shape {made.shape} for {len(texts)} texts",
                "it must return one vector for each text, all of one length",
            )
        return _unit(numpy.nan_to_num(made))


def _unit(made: NDArray[float32]) -> NDArray[float32]:
    import numpy

    return made / numpy.maximum(numpy.linalg.norm(made, axis=1, keepdims=True), 1e-12)
