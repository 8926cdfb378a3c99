"""Transfer: export and import of threads and whole stores."""

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
from contextrelay.verbs.verb import (
    Author,
    Label,
    Stream,
    Traits,
    Verb,
)


class ExportThread(Verb[Stream[ThreadView]], frozen=True):
    """Stream a thread as a zip file: manifest, history, events and the bytes of its artifacts."""

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
    """Create a thread from an exported zip file."""

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
    by: Author = ""


class Backup(Verb[Stream[BackupReport]], frozen=True):
    """Stream the whole store as a tar file, which is consistent even if others write meanwhile."""

    traits = Traits(
        needs="owner",
        answered_in="backup",
        http="GET /v1/backup",
        media_type="application/x-tar",
        slow=True,
    )


class Restore(Verb[RestoreReport], frozen=True):
    """Restore a backup into an empty store and check every hash.

    An interrupted restore keeps the store locked until the restore is repeated or abandoned.
    Abandoning needs no backup and erases what was written.
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
    """Copy another store into this one. The source may be in use; this store must be empty or
    partly migrated.
    """

    traits = Traits(needs="owner", while_locked=True, answered_in="migrate", slow=True)

    source: str
    """The address of the storage engine of the source."""
    is_checked: bool = False
    """Whether to read back everything that was copied, before this store is unlocked."""
    stays_locked: bool = False
    """Whether to leave this store locked because another pass will follow."""
    show: Callable[[MigrateProgress], None] | None = None
