"""Markdown as HTML: somebody's text, of which only structure is taken over.

Rule: no HTML of theirs, no picture, nothing that loads. A link leads to another site, with its
address to point at, or nowhere: never to a place on this page.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup, escape

from contextrelay.content.untrusted.hidden_chars import spell_hidden
from contextrelay.limits import PAGE_MARKDOWNS_MAX

_ELSEWHERE = ("http://", "https://", "mailto:")


@lru_cache(PAGE_MARKDOWNS_MAX)
def rendered(text: str) -> Markup:
    """A text in Markdown as HTML that can do nothing."""
    return Markup(_parser().render(spell_hidden(text)))


@cache
def _parser() -> MarkdownIt:
    made = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
    made.add_render_rule("link_open", _link)
    return made


def _link(_: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    to = str(tokens[index].attrGet("href") or "")
    if not to.lower().startswith(_ELSEWHERE):
        return "<a>"
    return Markup('<a href="{0}" title="{0}" rel="noopener noreferrer nofollow">').format(
        escape(to)
    )
