"""The link: changes of a project's files are copied into its thread, as one patch.

Rule: one way. Files change from the thread only by `restore`. Where nothing changed since the last
time, no store is opened at all.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

from contextrelay.documents.value_types import is_object
from contextrelay.errors import Conflict, Gone, NotFound, Unavailable
from contextrelay.limits import PROJECT_OWN_BYTES_MAX, RETRIES_MAX
from contextrelay.model.project import OWN_FOLDER, Texts
from contextrelay.project.files import confined
from contextrelay.project.files.decode import stamp_of
from contextrelay.project.files.lock import alone, make_own_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from contextrelay.client.relay import Relay
    from contextrelay.client.thread import Thread

_FILE = f"{OWN_FOLDER}/link.json"
THREAD_NAME = "project "
"""What the names of projects' threads begin with."""


def link_at(folder: str | os.PathLike[str], address: str, open_relay: Callable[[], Relay]) -> Link:
    """The link to the thread in the store at an address, which may be a relative path."""
    if "://" not in address and address != "memory:":
        address = str(Path(address).expanduser().absolute())
    return Link(Path(folder).absolute(), address, open_relay)


class Link:
    """The thread of a project, in the store at an address."""

    def __init__(self, folder: Path, address: str, open_relay: Callable[[], Relay]) -> None:
        self._folder = folder
        self._address = address
        self._open = open_relay

    def learn(self, read: Callable[[], Texts], name: str, by: str) -> int | None:
        """Patch the thread; returns its new version, or None where nothing had changed."""
        if self._known().get("stamp") == stamp_of(read()):
            return None
        with alone(self._folder, "link"):
            # Read only now: the second of two writers must not bring older texts.
            texts = read()
            version = self._patch(texts, name, by)
            self._remember(stamp=stamp_of(texts))
            return version

    @property
    def thread_id(self) -> str:
        """The thread's id, or "" where there is none yet."""
        # Only an id: the file may have come with the folder, and names can be guessed.
        from contextrelay.model.ref import is_ref

        known = str(self._known().get("thread", ""))
        return known if is_ref(known) else ""

    def facts(self, version: int | None) -> dict[str, Any]:
        """The facts of a version of the thread, by key.

        Raises:
            NotFound: there is no such thread, or version.
        """
        if not self.thread_id:
            raise NotFound(
                "this project has no thread yet", "it gets one with: relay project start"
            )
        state = self._open().thread(self.thread_id).state(version)
        return {fact["key"]: fact["value"] for fact in state["facts"]}

    def _patch(self, texts: Texts, name: str, by: str) -> int | None:
        from datetime import UTC, datetime

        from msgspec import to_builtins

        from contextrelay.documents.diff import difference
        from contextrelay.project.thread_facts import facts_of, with_facts

        wanted = facts_of(texts)
        now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        thread = self._thread(name, by)
        for _ in range(RETRIES_MAX):
            state = thread.state()
            facts = with_facts(state["facts"], wanted, now)
            found = [to_builtins(each) for each in difference(state["facts"], facts, "/facts")]
            if not found:
                return None
            with suppress(Conflict):
                return thread.patch(found, expected=state["version"], by=by).version
        raise Unavailable(f"others keep changing thread {thread.id}", "try again")

    def _thread(self, name: str, by: str) -> Thread:
        relay = self._open()
        if self.thread_id:
            with suppress(NotFound, Gone):
                thread = relay.thread(self.thread_id)
                if thread.show().status == "open":
                    return thread
        thread = relay.new_thread(f"{THREAD_NAME}{name}"[:100], by=by)
        self._remember(thread=thread.id)
        return thread

    def _known(self) -> dict[str, Any]:
        known: Any = self._all().get(self._address)
        return known if is_object(known) else {}

    def _all(self) -> dict[str, Any]:
        content = confined.read(self._folder, _FILE, PROJECT_OWN_BYTES_MAX)
        try:
            found: Any = json.loads(content or b"{}")
        except (ValueError, RecursionError):
            return {}
        return found if is_object(found) else {}

    def _remember(self, **fields: str) -> None:
        everything = {**self._all(), self._address: {**self._known(), **fields}}
        make_own_folder(self._folder)
        text = json.dumps(everything, indent=2) + "\n"
        confined.write(self._folder, _FILE, text.encode(), is_durable=False)
