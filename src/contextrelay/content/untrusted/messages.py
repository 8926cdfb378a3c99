"""Messages: render a thread for a model, as its header and previews of its artifacts.

Rule: full content is never included, only defused previews. On request, each preview is in a fence
that states its type and source. The line above it has ref and name.
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
"""An artifact, or the ref of a removed one and what happened to it."""


def as_openai(
    header: bytes,
    artifacts: Sequence[Shown],
    user: str | None = None,
    is_fenced: bool = False,
) -> list[Message]:
    """Return messages in the format of OpenAI's chat API.

    A removed artifact is a ref and what happened to it. `user`: the user's prompt, which comes last
    in a message of its own, so that nothing from an artifact can pass for it.
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
    """Return the preview of an artifact, fenced or bare, below a line that names it."""
    if isinstance(artifact, tuple):
        ref, became = artifact
        return f"[artifact:{ref} | gone]\n{became}"
    name = " ".join(defuse(artifact.name or "").text.split()) or artifact.type
    text = fence(artifact) if is_fenced else artifact.preview.text
    return f"[artifact:{artifact.ref} | {name}]\n{text}"


def shown_briefly(artifact: Shown) -> str:
    """Return the same as `shown_artifact`, in as few words as possible."""
    return shown_artifact(artifact) if isinstance(artifact, tuple) else fence_briefly(artifact)
