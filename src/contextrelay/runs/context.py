"""What a run begins with: the bundle, gathered from a thread by verbs that do not grow with it."""

from __future__ import annotations

from typing import Any

from msgspec import Raw, Struct
from msgspec.json import decode

from contextrelay.client.flow import Flow
from contextrelay.content.untrusted.fence import fenced
from contextrelay.content.untrusted.messages import Shown
from contextrelay.errors import Gone, Invalid, NotFound
from contextrelay.limits import BUNDLE_PREVIEWS_MAX, BUNDLE_TURNS_MAX, QUERY_CHARS_MAX
from contextrelay.model.artifact import Artifact
from contextrelay.model.package import Package
from contextrelay.runs.bundle import SYSTEM, Bundle, Turn, build_bundle
from contextrelay.verbs import Pack, Peek, ReadHeader


class Gathered(Struct, frozen=True):
    """A bundle, and the version of the state that it shows."""

    bundle: Bundle
    version: int
    sources: tuple[str, ...]
    """The artifacts that it shows anything of."""


def gather(
    thread: str,
    user: str,
    refs: tuple[str, ...] = (),
    system: str | None = None,
    budget_tokens: int | None = None,
    is_alone: bool = False,
) -> Flow[Gathered]:
    """Put the bundle of a thread together, with these refs before its own newest artifacts.

    `is_alone`: nothing of the thread is shown, only these refs.

    Raises:
        NotFound, Gone: there is no such thread, or a ref that is named is not there.
        Invalid: the words are empty or too long, or too many refs are named.
    """
    if len(refs) > BUNDLE_PREVIEWS_MAX:
        raise Invalid(f"{len(refs)} refs are named", f"at most {BUNDLE_PREVIEWS_MAX}")
    if is_alone:
        named = yield from _peeked(refs)
        bundle = build_bundle(b"", named, user, system=system or SYSTEM, is_brief=True)
        return Gathered(bundle, 0, tuple(dict.fromkeys(bundle.refs)))
    raw: Raw = (yield ReadHeader(thread)).header
    header: dict[str, Any] = decode(raw)
    turns, answers = yield from _turns(header)
    named = yield from _peeked(refs)
    newest = [ref for ref in reversed(header["artifact_refs"]) if ref not in (*refs, *answers)]
    shown = [*named, *(yield from _shown(newest[: BUNDLE_PREVIEWS_MAX - len(named)]))]
    packed = ""
    if budget_tokens is not None:
        package: Package = yield Pack(thread, user[:QUERY_CHARS_MAX], budget_tokens)
        packed = fenced(package.text, "what was packed of this thread")
    bundle = build_bundle(
        bytes(raw), shown, user, system=system or SYSTEM, packed=packed, turns=turns
    )
    return Gathered(bundle, header["version"], tuple(dict.fromkeys((*bundle.refs, *answers))))


def _peeked(refs: tuple[str, ...]) -> Flow[list[Shown]]:
    artifacts: list[Shown] = []
    for ref in refs:
        artifact: Artifact = yield Peek(ref)
        artifacts.append(artifact)
    return artifacts


def _shown(refs: list[str]) -> Flow[list[Shown]]:
    """Artifacts to show; one that is gone is a ref and what became of it."""
    shown: list[Shown] = []
    for ref in refs:
        try:
            shown.append((yield Peek(ref)))
        except (Gone, NotFound) as error:
            shown.append((ref, error.message))
    return shown


def _turns(header: dict[str, Any]) -> Flow[tuple[list[Turn], list[str]]]:
    """What was asked and answered last, oldest first, and the refs of the answers.

    The last actions name answers, and an answer says what was asked: so no log has to be searched,
    and a fork knows what was said before it.
    """
    turns: list[Turn] = []
    answers: list[str] = []
    for done in header["last_actions"][-(BUNDLE_TURNS_MAX // 2) :]:
        if "result_ref" not in done:
            continue
        try:
            artifact: Artifact = yield Peek(done["result_ref"])
        except (Gone, NotFound):
            continue
        asked = artifact.metadata.get("asked")
        if isinstance(asked, str) and asked and artifact.preview.text:
            turns += [Turn("user", asked), Turn("assistant", artifact.preview.text)]
            answers.append(artifact.ref)
    return turns, answers
