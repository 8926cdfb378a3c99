"""Channels: send signals, read them in order, list the channels, and delete old signals.

The log `c/<channel>` has a fact for each signal. Two kinds of its rows are put on the due list:
`kept`, for signals that reach their age limit, and `idle`, for a channel that has had no signal for
long.

Rule: the signal of a push is written in the commit that stores it. A row is deleted only after its
work is done, so that a sweep can stop anywhere.
"""

from __future__ import annotations

from contextlib import suppress

from msgspec.json import Decoder, Encoder

from contextrelay.core.idempotency import find_earlier_answer, once_rows
from contextrelay.core.registry import answers
from contextrelay.core.schema import UNREADABLE, RowKind, first_page, walk_facts, walk_logs
from contextrelay.core.stores import Stores
from contextrelay.documents.bounds import check_channel, check_json, check_label
from contextrelay.errors import Broken, Invalid, RelayError, Unavailable
from contextrelay.limits import LABEL_CHARS_MAX, MESSAGE_BYTES_MAX, RETRIES_MAX, TOMBSTONE_S
from contextrelay.model.artifact import Artifact, from_ms
from contextrelay.model.key import caller_name
from contextrelay.model.names import CHANNELS, channel_log
from contextrelay.model.signal import (
    ChannelListing,
    ChannelView,
    SentSignal,
    Signal,
    SignalPage,
)
from contextrelay.store.ledger import ONLY, Fact, Ledger, Reads, Row, Stale, Write
from contextrelay.verbs import Body, ListChannels, Publish, ReadSignals

# A channel may exceed its limit by this fraction (1/10), because trimming at each signal costs
# more.
SIGNALS_TRIMMED_SHARE = 10
# The age of signals is measured in steps; the retention time has this many steps.
SIGNAL_AGE_STEPS = 24


_encoder = Encoder()
_decoder = Decoder(SentSignal)
_signal_decoder = Decoder(Signal)


# Sending


@answers(Publish)
def publish(stores: Stores, verb: Publish, body: Body) -> Signal:
    check_label(verb.by, "by", LABEL_CHARS_MAX)
    if verb.message is None:
        raise Invalid("the message is null", "send any JSON value except null")
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
    """Send a signal of a request with a key, or return the one that an earlier attempt has sent."""
    with stores.ledger.contention_lock():
        for _ in range(RETRIES_MAX):
            head = stores.ledger.last(log)
            before = find_earlier_answer(stores, log)
            if before is not None:
                return _signal_decoder.decode(before)
            signal = _signal(sent, head + 1)
            rows = (kept_row(stores, sent.ts), *once_rows(stores, _encoder.encode(signal)))
            write = Write(log, (_encoder.encode(sent),), rows, expect=head)
            with suppress(Stale):
                trim_surplus(stores, [write], stores.ledger.commit(write))
                return signal
    raise Unavailable(f"too many concurrent signals on {log.removeprefix(CHANNELS)!r}", "try again")


def signal_writes(stores: Stores, made: list[Artifact]) -> list[Write]:
    """Return the writes that send the signals of pushes, in order, one write per channel."""
    by_channel: dict[str, list[Artifact]] = {}
    for artifact in made:
        if artifact.channel is not None:
            by_channel.setdefault(artifact.channel, []).append(artifact)
    return [signal_write(stores, channel, each) for channel, each in by_channel.items()]


def signal_write(stores: Stores, channel: str, made: list[Artifact]) -> Write:
    """Return the write that sends the signals of pushes to one channel."""
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
    """Return the row that is due when signals sent about now reach their age limit.

    Signals of the same step share its key.
    """
    kept_ms = stores.settings.signal_kept_s * 1000
    step_ms = kept_ms // SIGNAL_AGE_STEPS
    end_ms = (now_ms // step_ms + 1) * step_ms
    return Row(RowKind.KEPT, f"{end_ms:014d}", b"", end_ms + kept_ms)


def trim_surplus(stores: Stores, writes: list[Write], heads: list[int]) -> None:
    """Delete the oldest signals of a channel that has too many.

    This happens only once in a number of signals.
    """
    kept_max = stores.settings.signals_kept_max
    step = max(1, kept_max // SIGNALS_TRIMMED_SHARE)
    for write, head in zip(writes, heads, strict=True):
        is_turn = head // step > (head - len(write.facts)) // step
        if is_turn and head > kept_max:
            # If trimming fails, the signals are sent anyway, and the next trim deletes the surplus.
            with suppress(RelayError):
                stores.ledger.trim(write.log, head - kept_max + 1)


def _new_id(stores: Stores) -> str:
    return stores.random_bytes(8).hex()


# Reading


@answers(ReadSignals)
def read_signals(stores: Stores, verb: ReadSignals, body: Body) -> SignalPage:
    log = channel_log(check_channel(verb.channel))
    for _ in range(RETRIES_MAX):
        # Read the head first: signals that arrive between the two reads are not a gap.
        head = stores.ledger.last(log)
        if verb.after is None:
            return SignalPage(signals=[], head=head)
        after = verb.after if verb.after <= head else 0
        facts = stores.ledger.read(log, after, verb.limit)
        if not (facts and stores.ledger.may_lose) or _are_confirmed(stores.ledger, log, facts):
            break
    else:
        raise Unavailable(
            f"channel {verb.channel!r} changes faster than it can be read", "try again"
        )
    # The seq of the last deleted signal, if any; if all signals are deleted, it is the head.
    missed = facts[0].seq - 1 if facts else head
    gap = None
    if missed > after or verb.after > head:
        gap = (verb.after + 1, missed)
    return SignalPage(
        signals=[_signal(decoded(fact, verb.channel), fact.seq) for fact in facts],
        head=max(head, facts[-1].seq) if facts else head,
        gap=gap,
    )


def _are_confirmed(ledger: Ledger, log: str, facts: list[Fact]) -> bool:
    """Return True if facts are still in the log after confirmation, because a fail-over may revert
    facts.

    Without this check a subscriber could receive reverted facts, and miss the facts that get their
    numbers.

    Raises:
        Unconfirmed: replicas are unreachable, so the facts cannot be confirmed.
    """
    ledger.confirm(log)
    return ledger.read(log, facts[0].seq - 1, len(facts)) == facts


def decoded(fact: Fact, channel: str) -> SentSignal:
    """Decode the signal in a fact.

    Raises:
        Broken: the signal cannot be decoded.
    """
    try:
        return _decoder.decode(fact.body)
    except UNREADABLE as error:
        raise Broken(
            f"cannot read signal {fact.seq} of channel {channel!r}: {error}",
            f"continue after {fact.seq}; check the store: relay verify",
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
    """Return a channel, or None if no signal was ever sent to it.

    An interrupted push may have only named the channel.
    """
    head = ledger.last(log)
    if not head:
        return None
    name = log.removeprefix(CHANNELS)
    newest = ledger.read(log, head - 1, 1)
    last_at = None
    with suppress(Broken):  # If the signal is damaged, `verify` reports it.
        last_at = from_ms(decoded(newest[0], name).ts) if newest else None
    return ChannelView(name=name, head=head, last_at=last_at)


def apply_retention(stores: Stores, log: str, row: Row) -> None:
    """Delete old signals, or an idle channel, when the row of a channel is due."""
    if row.kind == RowKind.KEPT:
        _forget_old(stores, log, row)
    elif row.kind == RowKind.IDLE:
        _forget_idle(stores, log, row)


def _forget_old(stores: Stores, log: str, row: Row) -> None:
    kept_ms = stores.settings.signal_kept_s * 1000
    now_ms = stores.now_ms()
    # Read the head first: signals after it are not old.
    head = stores.ledger.last(log)
    # Signals sent before this time are deleted.
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
        # The retention time was increased after these signals were sent.
        later_ms = sent_ms + kept_ms + kept_ms // SIGNAL_AGE_STEPS
        done = Row(RowKind.KEPT, row.key, b"", later_ms)
    stores.ledger.commit(Write(log, rows=(done,)))


def _sent_ms(fact: Fact, log: str) -> int:
    try:
        return decoded(fact, log.removeprefix(CHANNELS)).ts
    except Broken:
        return 0  # An unreadable signal counts as old.


def _forget_idle(stores: Stores, log: str, row: Row) -> None:
    head = stores.ledger.last(log)
    if head != int(row.body or b"0"):
        # Signals were sent since; the row of the last signal is due later.
        stores.ledger.commit(Write(log, rows=(Row(RowKind.IDLE, ONLY, None),)))
    else:
        with suppress(Stale):
            stores.ledger.drop(log, expect=head)
