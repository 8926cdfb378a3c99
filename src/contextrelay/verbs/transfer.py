"""Transfer: threads and whole stores as files, out and in."""

from __future__ import annotations

from collections.abc import Callable

from contextrelay.model.ref import Ref
from contextrelay.model.reports import (
    BackupReport,
    MigrateProgress,
    MigrateReport,
    RestoreReport,
)
from contextrelay.model.thread import ThreadView
from contextrelay.verbs.verb import Label, Stream, Traits, Verb


class ExportThread(Verb[Stream[ThreadView]], frozen=True):
    """Stream a thread as one zip: manifest, history, events and the bytes of its artifacts."""

    traits = Traits(
        needs="read",
        answered_in="transfer",
        http="GET /v1/threads/{thread}/export",
        media_type="application/zip",
        slow=True,
        fails=(413,),
    )

    thread: Ref


class ImportThread(Verb[ThreadView], frozen=True):
    """Make a new thread from an exported zip."""

    traits = Traits(
        needs="write",
        answered_in="transfer",
        http="POST /v1/threads/import",
        status=201,
        takes_body=True,
        slow=True,
        keyed=True,
        fills="made",
        makes_thread=True,
        fails=(409,),
    )

    name: Label | None = None
    by: Label = "you"


class Backup(Verb[Stream[BackupReport]], frozen=True):
    """Stream the whole store as one tar file, consistent while others write."""

    traits = Traits(
        needs="owner",
        answered_in="backup",
        http="GET /v1/backup",
        media_type="application/x-tar",
        slow=True,
    )


class Restore(Verb[RestoreReport], frozen=True):
    """Fill an empty store from a backup, checking every hash.

    One that was cut short keeps the store locked: it is done again, or abandoned, which takes no
    backup and erases what it had written.
    """

    traits = Traits(
        needs="owner",
        while_locked=True,
        answered_in="backup",
        http="POST /v1/restore",
        takes_body=True,
        slow=True,
        fills="sent",
        fails=(409,),
    )

    is_abandoned: bool = False


class Migrate(Verb[MigrateReport], frozen=True):
    """Copy another store into this one, which is empty or was begun so, while that is in use."""

    traits = Traits(needs="owner", while_locked=True, answered_in="migrate", slow=True)

    source: str
    """The address of its engine."""
    is_checked: bool = False
    """Whether all that was copied is read back before this store is opened."""
    stays_locked: bool = False
    """Whether more is to come, so that this store is not opened yet."""
    show: Callable[[MigrateProgress], None] | None = None
