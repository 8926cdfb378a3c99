"""Embeddings: what blocks are about, as vectors, and how near that is to what a query asks.

What a block is about is said by its neighbours too: their vectors are added to its own, less the
further away they are. What all blocks have in common says nothing and is taken off first.

Rule: a text is embedded once, when it is first asked about, together with all that came since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from contextrelay.errors import Invalid

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray

Embed = Callable[[Sequence[str]], Sequence[Sequence[float]]]
"""From texts to vectors, one each, of one length."""

Run = Sequence[str | None]
"""Names of texts that follow each other; None for one that left."""


class Vectors:
    """Texts under names, with their vectors."""

    def __init__(self, embed: Embed, lent: Sequence[float]) -> None:
        self._embed = embed
        self._lent = lent
        """What a neighbour adds of its own, the next one first."""
        self._waiting: dict[str, str] = {}
        self._rows: dict[str, int] = {}
        self._matrix: NDArray[float32] | None = None
        self._topics: tuple[NDArray[float32], NDArray[float32]] | None = None
        """By row what each text is about, and what all have in common; None: something changed."""

    def add(self, name: str, text: str) -> None:
        """Take a text in; another one under the same name is replaced."""
        self._waiting[name] = text
        self._topics = None

    def remove(self, name: str) -> None:
        self._waiting.pop(name, None)
        self._rows.pop(name, None)
        self._topics = None

    def near(self, text: str, runs: Iterable[Run]) -> dict[str, float]:
        """How near each text is to this one, with those around it: from 0 to 1 for the nearest.

        `runs`: which of them follow each other.

        Raises:
            Invalid: the embedding gives something else than vectors of one length.
        """
        self._catch_up()
        if self._matrix is None or not self._rows:
            return {}
        if self._topics is None:
            self._topics = self._about(self._matrix, runs)
        topics, mean = self._topics
        rows = list(self._rows.values())
        similarity = (topics @ _unit(self._made([text]) - mean)[0])[rows]
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
            for offset, share in enumerate(self._lent, 1):
                summed[offset:] += share * given[:-offset]
                summed[:-offset] += share * given[offset:]
            about[rows[there]] = summed[there]
        return _unit(about), mean

    def _catch_up(self) -> None:
        import numpy

        if not self._waiting:
            return
        made = self._made(list(self._waiting.values()))
        start = 0 if self._matrix is None else len(self._matrix)
        self._matrix = made if self._matrix is None else numpy.concatenate((self._matrix, made))
        self._rows.update({name: start + index for index, name in enumerate(self._waiting)})
        self._waiting.clear()
        if len(self._matrix) > 2 * len(self._rows) + 64:  # Most rows are of what was replaced.
            self._matrix = self._matrix[list(self._rows.values())]
            self._rows = {name: row for row, name in enumerate(self._rows)}

    def _made(self, texts: list[str]) -> NDArray[float32]:
        """Vectors of length 1."""
        import numpy

        made = numpy.asarray(self._embed(texts), dtype=numpy.float32)
        width = made.shape[1] if made.ndim == 2 else 0
        fits = self._matrix is None or self._matrix.shape[1] == width
        if made.shape != (len(texts), width) or not width or not fits:
            raise Invalid(
                f"the embedding made {made.shape} of {len(texts)} texts",
                "it has to give one vector each, all of one length",
            )
        return _unit(numpy.nan_to_num(made))


def _unit(made: NDArray[float32]) -> NDArray[float32]:
    import numpy

    return made / numpy.maximum(numpy.linalg.norm(made, axis=1, keepdims=True), 1e-12)
