"""Names: convert what a person or a model writes to a ref, a thread, or a version of its state.

- An artifact: its ref, the first six or more characters of it, a URL that ends in `/pull/<ref>`,
  `ctx://<ref>`, or `@last`.
- A thread: its id, the first six or more characters of it, or its name.
- A place: `THREAD@v7` is a version of a thread, `THREAD@v7:/facts/0` a place in that version.

Rule: these forms are parsed here and nowhere else; every interface uses these flows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple, TypeVar

from msgspec import Struct

from contextrelay.client.flow import Flow
from contextrelay.client.transport.address import is_server, server_at
from contextrelay.content.untrusted.hidden_chars import spell_hidden
from contextrelay.errors import Invalid, NotFound, RelayError
from contextrelay.limits import LABEL_CHARS_MAX, LIST_ITEMS_MAX
from contextrelay.model.artifact import Artifact
from contextrelay.model.ref import is_ref, parse_ref
from contextrelay.model.thread import ThreadView, ambiguous_name
from contextrelay.verbs import Find, FindThreads, LastPush, List, ListThreads, ShowThread

Item = TypeVar("Item")

SCHEME = "ctx://"
LAST = "@last"
PULL = "/pull/"
PREFIX_CHARS_MIN = 6
REF_CHARS = 36
# The number of newest artifacts that are searched for suggestions.
RECENT_ITEMS = 200
_DIGITS = frozenset("0123456789abcdef-")
_PLACE = re.compile(
    r"(?P<thread>.*?)(?:@v(?P<version>[0-9]{1,15}))?(?::(?P<pointer>/.*))?", re.DOTALL
)
_BARE_VERSION = re.compile(r"v[0-9]{1,15}")


class InterfaceNames(Struct, frozen=True):
    """The commands that an interface shows in hints, and the places where `@last` looks."""

    list_artifacts: str
    list_threads: str
    new_thread: str
    places: tuple[str, ...] = ()


class ThreadReference(NamedTuple):
    """A reference to a thread: its text ("" for none), a version, and a pointer."""

    thread: str
    version: int | None = None
    pointer: str | None = None


def other_server(text: str, own: str | None) -> str | None:
    """Return the server address in a URL; None if it is this server (`own`), or if there is no
    server in the text.

    Raises:
        Invalid: the URL is malformed.
    """
    address, pull, _ = text.rpartition(PULL)
    if not pull or not is_server(address):
        return None
    is_own = is_server(own) and server_at(own or "", "").url == server_at(address, "").url
    return None if is_own else address


def find_ref(text: str, door: InterfaceNames) -> Flow[str]:
    """Return the ref of an artifact; a key in a URL is ignored.

    Raises:
        NotFound: the artifact does not exist.
        Gone: the text is `@last`, and the last push was removed.
        Invalid: the text is a malformed URL, or a prefix of several refs.
    """
    text = text.strip().removeprefix(SCHEME)
    if is_ref(text) or PULL in text:
        return parse_ref(text)
    if text == LAST and door.places:
        for place in door.places:
            for artifact in (yield LastPush(place)):
                return artifact.ref
        raise NotFound(
            "@last: nothing was pushed from this folder yet, in this terminal or by this agent",
            f"push something: relay push FILE; or pass a ref, see: {door.list_artifacts}",
        )
    prefix = text.lower()
    found: list[Artifact] = []
    if PREFIX_CHARS_MIN <= len(prefix) <= REF_CHARS and not set(prefix) - _DIGITS:
        found = yield Find(prefix)
    if len(found) > 1:
        raise _ambiguous("refs", text, [artifact.ref for artifact in found])
    if found:
        return found[0].ref
    message = f"no ref starts with {clean(text)[:40]}"
    if len(text) < PREFIX_CHARS_MIN:
        message = f"{clean(text)!r} is too short for a ref"
    try:
        recent: list[Artifact] = (yield List(limit=RECENT_ITEMS)).artifacts
    # A caller that may not list artifacts is still told that the ref does not exist.
    except RelayError:
        recent = []
    names = {artifact.name: artifact for artifact in reversed(recent) if artifact.name}
    close = _closest(text, names, {artifact.ref: artifact for artifact in recent})
    hint = f"pass a ref or a URL that ends in {PULL}<ref>; list them: {door.list_artifacts}"
    raise NotFound(message, hint if close is None else _meant(close.ref, close.name))


def find_thread(text: str, door: InterfaceNames) -> Flow[ThreadView]:
    """Return the thread with an id, a prefix of the id, or a name.

    Raises:
        NotFound: no thread matches.
        Invalid: several threads match.
    """
    text = text.strip()
    if is_ref(text):
        return (yield ShowThread(text))
    message = f"thread not found: {clean(text)[:80]!r}"
    hint = f"list the threads: {door.list_threads}; or create it: {door.new_thread}"
    if not 0 < len(text) <= LABEL_CHARS_MAX:
        raise NotFound(message, hint)
    found: list[ThreadView] = yield FindThreads(text)
    named = [view for view in found if view.name == text]
    if not found and text != text.lower():
        found = yield FindThreads(text.lower())
    if len(named) > 1:
        raise ambiguous_name(text, named)
    if named or len(found) == 1:
        return (named or found)[0]
    if found:
        raise _ambiguous("threads", text, [view.thread_id for view in found])
    # The newest thread of this name may have been removed, while an older one still exists.
    recent: list[ThreadView] = (yield ListThreads(limit=LIST_ITEMS_MAX)).threads
    names = {view.name: view for view in reversed(recent) if view.name}
    if text in names:
        return names[text]
    close = _closest(text, names, {view.thread_id: view for view in recent})
    raise NotFound(message, hint if close is None else _meant(close.thread_id, close.name))


def find_place(text: str) -> Flow[ThreadReference]:
    """Return the parts of a reference such as `THREAD@v7:/facts/0`; each part may be missing.

    Raises:
        Invalid: the version is 0.
    """
    text = text.strip()
    if _BARE_VERSION.fullmatch(text):
        text = f"@{text}"
    match = _PLACE.fullmatch(text)
    assert match is not None
    version = None if match["version"] is None else int(match["version"])
    if version == 0:
        raise Invalid(f"invalid version in {text}", "versions start at v1")
    thread, pointer = match["thread"], match["pointer"]
    # The name of a thread may look like a version, as in api@v2.
    may_be_name = thread and thread != text and len(text) <= LABEL_CHARS_MAX
    if may_be_name and not (yield FindThreads(thread)):
        for view in (yield FindThreads(text)):
            return ThreadReference(view.thread_id)
    return ThreadReference(thread, version, pointer)


def _ambiguous(what: str, text: str, ids: list[str]) -> Invalid:
    some = ", ".join(each[: len(text) + 4] for each in ids[:3])
    return Invalid(f"{len(ids)} {what} start with {clean(text)}", f"use more characters: {some}")


def _closest(text: str, names: Mapping[str, Item], ids: Mapping[str, Item]) -> Item | None:
    """Return the item with the most similar name or start of its id; None if no item is similar."""
    from difflib import get_close_matches

    starts = {each[: max(len(text), PREFIX_CHARS_MIN)]: each for each in ids}
    for match in get_close_matches(text, names):
        return names[match]
    for match in get_close_matches(text, starts):
        return ids[starts[match]]
    return None


def _meant(ref: str, name: str | None) -> str:
    return f"did you mean {ref[:8]}{f' ({clean(name)})' if name else ''}?"


def clean(text: str) -> str:
    """Return a text as one line, without hidden or control characters."""
    return spell_hidden(" ".join(text.split()))
