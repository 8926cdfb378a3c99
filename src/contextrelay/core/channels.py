"""Channels: signals are sent, read in order, listed by channel, and deleted when they are old.

The log `c/<channel>` has a fact for each signal. Two kinds of its rows come up on the due list:
`kept`, some signals that are old now; `idle`, a channel that has had none for long.

Rule: the signal of a push is written in the commit that stores it. A row goes only when what it
asks for is done, so that a sweep can stop anywhere.
"""

from __future__ import annotations

from contextlib import suppress

from msgspec.json import Decoder, Encoder

from contextrelay.core.idempotency import answered_before, once_rows
from contextrelay.core.registry import answers
from contextrelay.core.schema import UNREADABLE, RowKind, first_page, walk_facts, walk_logs
from contextrelay.core.stores import Stores
from contextrelay.documents.bounds import check_channel, check_json, check_label
from contextrelay.errors import Broken, Invalid, RelayError, Unavailable
from contextrelay.limits import LABEL_CHARS_MAX, MESSAGE_BYTES_MAX, RETRIES_MAX, TOMBSTONE_S
from contextrelay.model.artifact import Artifact, moment
from contextrelay.model.names import CHANNELS, channel_log
from contextrelay.model.run import caller_name
from contextrelay.model.signal import (
    ChannelListing,
    ChannelView,
    SentSignal,
    Signal,
    SignalPage,
)
from contextrelay.store.ledger import ONLY, Fact, Ledger, Reads, Row, Stale, Write
from contextrelay.verbs import Body, ListChannels, Publish, ReadSignals

# More signals than are to be kept may be, by one part in so many: trimming each time costs more.
SIGNALS_TRIMMED_SHARE = 10
# The age of signals is measured in so many steps of the time that they are kept.
SIGNAL_AGE_STEPS = 24


_encoder = Encoder()
_decoder = Decoder(SentSignal)
_signal_decoder = Decoder(Signal)


# Sending


@answers(Publish)
def publish(stores: Stores, verb: Publish, body: Body) -> Signal:
    check_label(verb.by, "by", LABEL_CHARS_MAX)
    if verb.message is None:
        raise Invalid("the message is null", "send any other JSON value")
    check_json(verb.message, "the message", MESSAGE_BYTES_MAX)
    log = channel_log(check_channel(verb.channel))
    now_ms = stores.now_ms()
    key = "" if stores.caller is None else caller_name(stores.caller.key)
    sent = SentSignal(id=_new_id(stores), ts=now_ms, by=verb.by, message=verb.message, key=key)
    if stores.once is not None:
        return _publish_once(stores, log, sent)
    write = Write(log, (_encoder.encode(sent),), (kept_row(stores, now_ms),))
    (seq,) = stores.ledger.commit(write)
    trim_surplus(stores, [write], [seq])
    return _signal(sent, seq)


def _publish_once(stores: Stores, log: str, sent: SentSignal) -> Signal:
    """Send a signal that has a key, or find it; the head is expected, so that one of two wins."""
    with stores.ledger.patience():
        for _ in range(RETRIES_MAX):
            head = stores.ledger.last(log)
            before = answered_before(stores, log)
            if before is not None:
                return _signal_decoder.decode(before)
            signal = _signal(sent, head + 1)
            rows = (kept_row(stores, sent.ts), *once_rows(stores, _encoder.encode(signal)))
            write = Write(log, (_encoder.encode(sent),), rows, expect=head)
            with suppress(Stale):
                trim_surplus(stores, [write], stores.ledger.commit(write))
                return signal
    raise Unavailable(f"others keep sending to {log.removeprefix(CHANNELS)!r}", "ask again")


def signal_writes(stores: Stores, made: list[Artifact]) -> list[Write]:
    """Return the signals of pushes, in order, one write a channel."""
    by_channel: dict[str, list[Artifact]] = {}
    for artifact in made:
        if artifact.channel is not None:
            by_channel.setdefault(artifact.channel, []).append(artifact)
    return [signal_write(stores, channel, each) for channel, each in by_channel.items()]


def signal_write(stores: Stores, channel: str, made: list[Artifact]) -> Write:
    """Return the signals of pushes to one channel."""
    now_ms = stores.now_ms()
    facts = tuple(
        _encoder.encode(
            SentSignal(
                id=_new_id(stores),
                ts=now_ms,
                by=artifact.provenance.created_by,
                ref=artifact.ref,
            )
        )
        for artifact in made
    )
    return Write(channel_log(channel), facts, (kept_row(stores, now_ms),))


def kept_row(stores: Stores, now_ms: int) -> Row:
    """When the signals of about now will be old. Its key, and so the row, is theirs in common."""
    kept_ms = stores.settings.signal_kept_s * 1000
    step_ms = kept_ms // SIGNAL_AGE_STEPS
    end_ms = (now_ms // step_ms + 1) * step_ms
    return Row(RowKind.KEPT, f"{end_ms:014d}", b"", end_ms + kept_ms)


def trim_surplus(stores: Stores, writes: list[Write], heads: list[int]) -> None:
    """Forget the oldest signals of a channel that has too many, once in so many signals."""
    kept_max = stores.settings.signals_kept_max
    step = max(1, kept_max // SIGNALS_TRIMMED_SHARE)
    for write, head in zip(writes, heads, strict=True):
        is_turn = head // step > (head - len(write.facts)) // step
        if is_turn and head > kept_max:
            with suppress(RelayError):  # The signal is sent; the next turn trims for this one too.
                stores.ledger.trim(write.log, head - kept_max + 1)


def _new_id(stores: Stores) -> str:
    return stores.random_bytes(8).hex()


# Reading


@answers(ReadSignals)
def read_signals(stores: Stores, verb: ReadSignals, body: Body) -> SignalPage:
    log = channel_log(check_channel(verb.channel))
    for _ in range(RETRIES_MAX):
        # The head first: what comes between the two reads is no gap.
        head = stores.ledger.last(log)
        if verb.after is None:
            return SignalPage(signals=[], head=head)
        after = verb.after if verb.after <= head else 0
        facts = stores.ledger.read(log, after, verb.limit)
        if not (facts and stores.ledger.may_lose) or _stay(stores.ledger, log, facts):
            break
    else:
        raise Unavailable(f"channel {verb.channel} changes faster than it is read", "try again")
    # The last one that is not kept, if any: of none kept, all up to the head.
    missed = facts[0].seq - 1 if facts else head
    gap = None
    if missed > after or verb.after > head:
        gap = (verb.after + 1, missed)
    return SignalPage(
        signals=[_signal(decoded(fact, verb.channel), fact.seq) for fact in facts],
        head=max(head, facts[-1].seq) if facts else head,
        gap=gap,
    )


def _stay(ledger: Ledger, log: str, facts: list[Fact]) -> bool:
    """Whether facts are still there once they were confirmed: a fail-over takes back what was not.

    Else a listener would have heard it, and would miss what gets its number.

    Raises:
        Unconfirmed: replicas are away, so nobody knows.
    """
    ledger.confirm(log)
    return ledger.read(log, facts[0].seq - 1, len(facts)) == facts


def decoded(fact: Fact, channel: str) -> SentSignal:
    """The signal in a fact.

    Raises:
        Broken: it cannot be read.
    """
    try:
        return _decoder.decode(fact.body)
    except UNREADABLE as error:
        raise Broken(
            f"signal {fact.seq} of channel {channel!r} cannot be read: {error}",
            f"go on after {fact.seq}; see what else is damaged with: relay verify",
        ) from error


def _signal(sent: SentSignal, seq: int) -> Signal:
    return Signal(seq=seq, ts=sent.ts, by=sent.by, ref=sent.ref, message=sent.message, key=sent.key)


@answers(ListChannels)
def list_channels(stores: Stores, verb: ListChannels, body: Body) -> ChannelListing:
    logs = walk_logs(stores.ledger, CHANNELS, channel_log(verb.after), verb.limit + 1)
    found = ((view.name, view) for log in logs if (view := _view(stores.ledger, log)))
    channels, after = first_page(found, verb.limit)
    return ChannelListing(channels=channels, next=after)


def _view(ledger: Reads, log: str) -> ChannelView | None:
    """A channel, if a signal was ever sent to it: a push may only have named it."""
    head = ledger.last(log)
    if not head:
        return None
    name = log.removeprefix(CHANNELS)
    newest = ledger.read(log, head - 1, 1)
    last_at = None
    with suppress(Broken):  # verify reports a signal that is damaged.
        last_at = moment(decoded(newest[0], name).ts) if newest else None
    return ChannelView(name=name, head=head, last_at=last_at)


def apply_retention(stores: Stores, log: str, row: Row) -> None:
    """Do what a due row of a channel asks for."""
    if row.kind == RowKind.KEPT:
        _forget_old(stores, log, row)
    elif row.kind == RowKind.IDLE:
        _forget_idle(stores, log, row)


def _forget_old(stores: Stores, log: str, row: Row) -> None:
    kept_ms = stores.settings.signal_kept_s * 1000
    now_ms = stores.now_ms()
    # The head first: what comes after it is not old.
    head = stores.ledger.last(log)
    # The first signal that is not old.
    old_ms = now_ms - kept_ms
    facts = walk_facts(stores.ledger, log)
    oldest = next((fact for fact in facts if _sent_ms(fact, log) > old_ms), None)
    stores.ledger.trim(log, head + 1 if oldest is None else oldest.seq)
    done = Row(RowKind.KEPT, row.key, None)
    end_ms = int(row.key)
    if oldest is None:
        idle = Row(RowKind.IDLE, ONLY, b"%d" % head, end_ms + TOMBSTONE_S * 1000)
        with suppress(Stale):  # There is a new signal, which has a row of its own.
            stores.ledger.commit(Write(log, rows=(idle,), expect=head))
    elif (sent_ms := _sent_ms(oldest, log)) < end_ms:
        # The settings keep signals longer than they did when these were sent.
        later_ms = sent_ms + kept_ms + kept_ms // SIGNAL_AGE_STEPS
        done = Row(RowKind.KEPT, row.key, b"", later_ms)
    stores.ledger.commit(Write(log, rows=(done,)))


def _sent_ms(fact: Fact, log: str) -> int:
    try:
        return decoded(fact, log.removeprefix(CHANNELS)).ts
    except Broken:
        return 0  # Nobody can read it: it is as good as old.


def _forget_idle(stores: Stores, log: str, row: Row) -> None:
    head = stores.ledger.last(log)
    if head != int(row.body or b"0"):
        # There were signals since; the last of them will bring this row back.
        stores.ledger.commit(Write(log, rows=(Row(RowKind.IDLE, ONLY, None),)))
    else:
        with suppress(Stale):
            stores.ledger.drop(log, expect=head)
