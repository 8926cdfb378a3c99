"""Drafts: the changes that a model makes to the state of its thread before its answer is stored.

Rule: nothing of a draft is written before the run ends. A draft is a list of entries, not of
operations. The operations are made for the version to which they are committed, so that ids stay
unique and paths stay valid after concurrent changes.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct, to_builtins
from msgspec.json import decode
from msgspec.structs import replace

from contextrelay.client.entries import now
from contextrelay.client.flow import Flow, SendBody
from contextrelay.documents.patch import Operation, apply
from contextrelay.errors import Conflict, Gone, Invalid, NotFound, Unavailable
from contextrelay.limits import RETRIES_MAX
from contextrelay.model.artifact import Artifact
from contextrelay.model.thread import EventPage, ThreadView
from contextrelay.state import schema
from contextrelay.state.schema import NewEntry, State, entry_operations, resolve_operations
from contextrelay.verbs import FinishRun, Peek, ReadEvents, ReadState, ShowThread

RUN_ENTRY_CHARS_MAX = 2_000
RUN_EVENTS_LOOKED_AT = 100
DRAFT_ENTRIES_MAX = 100


Text = Annotated[str, Meta(min_length=1, max_length=RUN_ENTRY_CHARS_MAX)]
_Texts = Annotated[list[Text], Meta(max_length=DRAFT_ENTRIES_MAX)]
_UNBOUNDED = 1 << 62


class NewFact(Struct, frozen=True, forbid_unknown_fields=True):
    text: Text
    key: (
        Annotated[
            str,
            Meta(min_length=1, max_length=128, description="Replaces older facts with this key."),
        ]
        | None
    ) = None


class DraftDecision(Struct, frozen=True, forbid_unknown_fields=True):
    text: Text
    reasons: Annotated[_Texts, Meta(description="Short codes, for example SAFE.")] = []
    evidence: Annotated[_Texts, Meta(description="Refs of artifacts.")] = []


class RelayState(Struct, frozen=True, forbid_unknown_fields=True):
    facts: Annotated[list[NewFact], Meta(max_length=DRAFT_ENTRIES_MAX)] = []
    decisions: Annotated[list[DraftDecision], Meta(max_length=DRAFT_ENTRIES_MAX)] = []
    questions: Annotated[_Texts, Meta(description="Open questions to add.")] = []
    steps: Annotated[_Texts, Meta(description="Next steps to add.")] = []
    resolve: Annotated[
        _Texts, Meta(description="Ids of answered questions and completed steps.")
    ] = []

    def entries(self) -> list[NewEntry]:
        return [
            *(NewEntry(kind="fact", text=each.text, key=each.key) for each in self.facts),
            *(
                NewEntry(
                    kind="decision",
                    text=each.text,
                    reasons=tuple(each.reasons),
                    evidence=tuple(each.evidence),
                )
                for each in self.decisions
            ),
            *(NewEntry(kind="question", text=each) for each in self.questions),
            *(NewEntry(kind="step", text=each) for each in self.steps),
        ]


class Draft(Struct, frozen=True):
    """The changes that a run makes in addition to its answer."""

    entries: tuple[NewEntry, ...] = ()
    resolved: tuple[str, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    """Artifacts that the model stored, which the state will list."""

    def __bool__(self) -> bool:
        return bool(self.entries or self.resolved or self.artifacts)

    def with_state(self, asked: RelayState) -> Draft:
        """Return this draft with the changes added that the model now requests.

        Raises:
            Invalid: there are no changes, or too many in one run.
        """
        entries = asked.entries()
        if not entries and not asked.resolve:
            raise Invalid("no changes", "pass facts, decisions, questions or steps")
        drafted = replace(
            self,
            entries=(*self.entries, *entries),
            resolved=tuple(dict.fromkeys((*self.resolved, *asked.resolve))),
        )
        drafted.check_size()
        return drafted

    def with_artifact(self, artifact: Artifact) -> Draft:
        drafted = replace(self, artifacts=(*self.artifacts, artifact))
        drafted.check_size()
        return drafted

    def check_size(self) -> None:
        count = len(self.entries) + len(self.resolved) + len(self.artifacts)
        if count > DRAFT_ENTRIES_MAX:
            raise Invalid(
                f"too many changes in one run: {count}",
                f"the limit is {DRAFT_ENTRIES_MAX}: record only what matters",
            )

    def operations(self, state: State, at: str) -> tuple[list[str], list[Any]]:
        """Apply the draft to a state, and return the ids of the new entries and the patch.

        Raises:
            NotFound: an entry to resolve does not exist.
        """
        ids: list[str] = []
        done: list[Operation] = []
        holder = [state]
        for id in self.resolved:
            done += _applied(holder, resolve_operations(state, id))
        for entry in self.entries:
            chosen, operations = entry_operations(state, entry, at)
            ids.append(chosen)
            done += _applied(holder, operations)
        done += (schema.artifact(each.ref, each.type, each.name) for each in self.artifacts)
        return ids, [to_builtins(each) for each in done]

    def listed(self) -> list[dict[str, Any]]:
        """Return the draft in the form in which events record it."""
        return [
            *({"kind": each.kind, "text": each.text} for each in self.entries),
            *({"kind": "resolve", "id": id} for id in self.resolved),
            *({"kind": "artifact", "ref": each.ref} for each in self.artifacts),
        ]


def _applied(holder: list[State], operations: list[Operation]) -> list[Operation]:
    apply(holder, operations, 0, _UNBOUNDED)
    return operations


def commit(verb: FinishRun, body: bytes, draft: Draft, sources: list[str]) -> Flow[Artifact]:
    """Finish a run on the newest version of the state, and return the answer. After concurrent
    changes, retry.

    Raises:
        Refused: the draft is no longer allowed.
        Unavailable: concurrent changes continued.
    """
    for _ in range(RETRIES_MAX):
        operations: list[Any] = []
        expected: int | None = None
        if draft:
            state: State = decode((yield ReadState(verb.thread)).state)
            expected = state["version"]
            _, operations = draft.operations(state, now())
        known: dict[str, Any] = {"operations": operations, "source_refs": tuple(sources)}
        try:
            return (yield SendBody(replace(verb, expected=expected, **known), body))
        except Conflict:
            continue
        except (Gone, NotFound):
            left = yield from _there(sources)
            if left == sources:
                raise
            sources = left
    raise Unavailable(f"too many concurrent changes of thread {verb.thread}", "retry")


def committed(thread: str, run: str) -> Flow[Artifact | None]:
    """Return the answer of a finished run, or None if the newest events of the thread have no
    answer.
    """
    view: ThreadView = yield ShowThread(thread)
    after = max(0, view.events - RUN_EVENTS_LOOKED_AT)
    page: EventPage = yield ReadEvents(thread, after, RUN_EVENTS_LOOKED_AT)
    for each in page.events:
        if each.event.type == "run.finished" and each.event.detail.get("run") == run:
            return (yield Peek(each.event.detail["ref"]))
    return None


def _there(refs: list[str]) -> Flow[list[str]]:
    """Return the refs that still exist, because others may delete what a model has read."""
    there: list[str] = []
    for ref in refs:
        try:
            yield Peek(ref)
        except (Gone, NotFound):
            continue
        there.append(ref)
    return there
