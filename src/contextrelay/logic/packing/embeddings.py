"""Embeddings: texts as vectors, which of them are near a query, and words and vectors together.

Rule: a text is embedded once, when it is first asked about, together with all that came since.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from contextrelay.errors import Invalid

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

Embed = Callable[[Sequence[str]], Sequence[Sequence[float]]]
"""From texts to vectors, one each, of one length."""


class Vectors:
    """Texts under names, with their vectors."""

    def __init__(self, embed: Embed) -> None:
        self._embed = embed
        self._waiting: dict[str, str] = {}
        self._rows: dict[str, int] = {}
        self._matrix: NDArray[float64] | None = None

    def add(self, name: str, text: str) -> None:
        """Take a text in; another one under the same name is replaced."""
        self._waiting[name] = text

    def remove(self, name: str) -> None:
        self._waiting.pop(name, None)
        self._rows.pop(name, None)

    def near(self, text: str) -> dict[str, float]:
        """How near each text is to this one: 1 for the same direction, 0 for no similarity.

        Raises:
            Invalid: the embedding gives something else than vectors of one length.
        """
        self._catch_up()
        if self._matrix is None:
            return {}
        similarity = (self._matrix @ self._unit([text])[0]).tolist()
        return {name: similarity[row] for name, row in self._rows.items()}

    def _catch_up(self) -> None:
        import numpy

        if not self._waiting:
            return
        made = self._unit(list(self._waiting.values()))
        start = 0 if self._matrix is None else len(self._matrix)
        self._matrix = made if self._matrix is None else numpy.concatenate((self._matrix, made))
        self._rows.update({name: start + index for index, name in enumerate(self._waiting)})
        self._waiting.clear()
        if len(self._matrix) > 2 * len(self._rows) + 64:  # Most rows are of what was replaced.
            self._matrix = self._matrix[list(self._rows.values())]
            self._rows = {name: row for row, name in enumerate(self._rows)}

    def _unit(self, texts: list[str]) -> NDArray[float64]:
        """Vectors of length 1."""
        import numpy

        made = numpy.asarray(self._embed(texts), dtype=float)
        width = made.shape[1] if made.ndim == 2 else 0
        fits = self._matrix is None or self._matrix.shape[1] == width
        if made.shape != (len(texts), width) or not width or not fits:
            raise Invalid(
                f"the embedding made {made.shape} of {len(texts)} texts",
                "it has to give one vector each, all of one length",
            )
        made = numpy.nan_to_num(made)
        return made / numpy.maximum(numpy.linalg.norm(made, axis=1, keepdims=True), 1e-12)


def fused(
    scores: Mapping[str, float], near: Mapping[str, float], lent: Mapping[str, float], share: float
) -> dict[str, float]:
    """Scores by words and similarity by vectors added up, each on the scale of its own spread.

    `near`: every text's own similarity; `lent`: the best that its neighbours lend it.
    """
    if not near:
        return dict(scores)
    lexical = _standard([scores.get(name, 0.0) for name in near])
    spatial = _standard([max(value, lent[name]) for name, value in near.items()])
    total = [one + share * other for one, other in zip(lexical, spatial, strict=True)]
    lowest = min(total)
    return {name: score - lowest for name, score in zip(near, total, strict=True) if score > lowest}


def _standard(values: list[float]) -> list[float]:
    mean = sum(values) / len(values)
    spread = math.sqrt(sum((value - mean) ** 2 for value in values) / len(values))
    return [(value - mean) / spread if spread else 0.0 for value in values]
