"""Rendering: a thread as the messages that a model is sent: its header, and previews of artifacts.

Rule: content never goes in, only what previews show of it, and they are defused. Where it is asked
for, each preview stands in a fence that says what it is and where from. The line above it has
ref and name.
"""

from __future__ import annotations

from collections.abc import Sequence

from contextrelay.content.untrusted.defuse import defuse
from contextrelay.content.untrusted.fence import defused_json, fence, fence_briefly
from contextrelay.model.artifact import Artifact

TITLE = "## Artifacts"
BETWEEN = "\n\n---\n\n"

Message = dict[str, str]
Shown = Artifact | tuple[str, str]
"""An artifact, or the ref of one that is gone and what became of it."""


def as_openai(
    header: bytes,
    artifacts: Sequence[Shown],
    user: str | None = None,
    is_fenced: bool = False,
) -> list[Message]:
    """Messages in the form that OpenAI's chat interface made common.

    An artifact that is gone is a ref and what became of it. `user`: what the user says, which comes
    last, in a message of its own, so that nothing from an artifact can pass for it.
    """
    shown = BETWEEN.join(shown_artifact(each, is_fenced) for each in artifacts) or "None."
    messages = [
        {"role": "system", "content": defused_json(header).decode()},
        {"role": "user", "content": f"{TITLE}\n\n{shown}"},
    ]
    if user:
        messages.append({"role": "user", "content": user})
    return messages


def shown_artifact(artifact: Shown, is_fenced: bool = True) -> str:
    """The preview of an artifact, in its fence or bare, below a line that names it."""
    if isinstance(artifact, tuple):
        ref, became = artifact
        return f"[artifact:{ref} | gone]\n{became}"
    name = " ".join(defuse(artifact.name or "").text.split()) or artifact.type
    text = fence(artifact) if is_fenced else artifact.preview.text
    return f"[artifact:{artifact.ref} | {name}]\n{text}"


def shown_briefly(artifact: Shown) -> str:
    """As `shown_artifact`, in as few words as there may be."""
    return shown_artifact(artifact) if isinstance(artifact, tuple) else fence_briefly(artifact)
