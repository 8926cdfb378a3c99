"""Each fast path does what the ordinary path does, and leaves the same behind.

The fast paths: pulls and peeks that are answered inline, pushes that share a commit, large JSON
bodies, and the local client next to the remote one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from hashlib import sha256
from http.client import HTTPConnection
from pathlib import Path
from threading import Event
from typing import Any

import httpx2
import pytest
from hypothesis import Phase, given, reject, settings
from hypothesis import strategies as st
from msgspec.json import encode
from msgspec.structs import force_setattr, replace

from contextrelay.client.transport.address import server_at
from contextrelay.client.transport.local import Local, open_stores
from contextrelay.client.transport.remote import Remote
from contextrelay.core import Stores, answer, answer_pushes, with_permissions_of
from contextrelay.core.schema import ARTIFACTS, RowKind, body_log
from contextrelay.errors import Invalid, RelayError
from contextrelay.limits import KIB
from contextrelay.store.ledger import ONLY, Ledger, Row, Write
from contextrelay.store.ledger.view import LedgerView
from contextrelay.verbs import VERBS, Body, List, Push, PushMany, Verb
from tests.core.keyed import body_of, examples
from tests.core.twins import LINES, Fate, Plain, Template, left_in, make_template
from tests.rigs import length
from tests.server.serving import Served, serving

EXAMPLES = settings(
    max_examples=length(thin=4, long=20, full=100),
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
)
NOWHERE = "00000000-0000-4000-8000-000000000000"
CALLERS = (None, "writer", "reader", "limited", "short", "tenant")
REFS = ("text", "binary", "json", "lines", "removed", "hidden", "foreign")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Template:
    return make_template(tmp_path_factory.mktemp("twins") / "template")


def attempt(act: Callable[[], Any]) -> Any:
    """Return a reply, or the error in its place."""
    try:
        return act()
    except RelayError as error:
        return error


def check_twins(template: Template, homes: list[Path], uncounted: tuple[str, ...] = ()) -> None:
    first, second = (left_in(home, template.known()) for home in homes)
    for counters in (first["counters"], second["counters"]):
        for name in list(counters):
            counters[name] = {of: n for of, n in counters[name].items() if of not in uncounted}
            if not counters[name]:
                del counters[name]
    assert second["counters"] == first["counters"]
    assert second["held"] - first["held"] == first["held"] - second["held"]


# Pushes that share a commit

DAMAGED = (b"damaged", b"damaged" * 6_000)
"""Bodies whose records cannot be read."""
BODIES = (b"", b"plain words", b'{"a": 1}', b"\x00\xff" * 50, b"x" * 2_000, os.urandom(40_000))


def _sometimes(*values: str) -> st.SearchStrategy[Any]:
    return st.sampled_from((None, None, None, *values))


@st.composite
def pushes(draw: st.DrawFn, template: Template) -> tuple[str | None, Push, bytes, str]:
    things, refs = template.things, template.refs
    verb = Push(
        name=draw(_sometimes("a.txt", "b.json", "bad\nname")),
        type=draw(_sometimes("json", "binary", "log")),
        media_type=draw(_sometimes("text/markdown", "none", "image/png")),
        metadata=draw(st.sampled_from(({}, {"n": 1}))),
        created_by=draw(st.sampled_from(("http", "agent", " "))),
        channel=draw(_sometimes("war room", "news", "a\x07")),
        thread=draw(_sometimes(things.thread, NOWHERE)),
        source_refs=draw(st.sampled_from(((), (), (), (refs["text"],), (refs["removed"],)))),
        parts=draw(st.sampled_from(((), (), (), (refs["lines"],), (refs["removed"],)))),
        sealed=draw(_sometimes("k1")),
    )
    key = draw(st.sampled_from(("", "", "", "", "retry-1", "retry-2")))
    return draw(st.sampled_from(CALLERS)), verb, draw(st.sampled_from(BODIES + DAMAGED)), key


def damage(stores: Stores, bodies: Sequence[bytes]) -> None:
    row = Row(RowKind.AT, ONLY, b"{")
    for body in bodies:
        stores.ledger.commit(Write(body_log(sha256(body).hexdigest()), (b"",), (row,)))


@EXAMPLES
@given(data=st.data())
def test_pushes_side_by_side_are_pushed_as_one_by_one(
    template: Template, data: st.DataObject
) -> None:
    """Promise S4. Each batch has pushes whose bodies have damaged records."""
    asked = data.draw(st.lists(pushes(template), min_size=8, max_size=24))
    asked += [(None, Push(), body, "") for body in DAMAGED]
    plain = Plain(template.known())
    homes = [template.twin(name) for name in ("together", "alone")]
    replies: list[list[Any]] = []
    for home, is_together in zip(homes, (True, False), strict=True):
        stores = open_stores(home, None)
        damage(stores, DAMAGED)
        callers: dict[str | None, Stores] = {None: stores}
        callers |= {
            name: with_permissions_of(stores, made.key) for name, made in template.keys.items()
        }
        each = [(callers[caller], verb, body, key) for caller, verb, body, key in asked]
        if is_together:
            replies.append([plain.reply(reply) for reply in answer_pushes(each)])
        else:
            replies.append([plain.reply(attempt(lambda one=one: answer(*one))) for one in each])
        stores.close()

    assert replies[0] == replies[1]
    check_twins(template, homes)


# Over HTTP, on two servers


def compare(
    template: Template, requests: list[Any], send: Callable[[httpx2.Client, Any, bool], Any]
) -> None:
    """Send each request to two servers, on a fast and on the ordinary way; compare what came."""
    homes = [template.twin(name) for name in ("fast", "ordinary")]
    came: list[list[Any]] = []
    figures: list[list[str]] = []
    for home, is_fast in zip(homes, (True, False), strict=True):
        with serving(home) as served, httpx2.Client(base_url=served.url) as web:
            fate = Fate(served.door.relay.stores)
            replies: list[Any] = []
            for number, each in enumerate(requests):
                fate.turn(number)
                replies.append(send(web, each, is_fast))
            came.append(replies)
            figures.append(_counted(served))
    assert came[0] == came[1]
    assert figures[0] == figures[1]
    check_twins(template, homes, ("bytes_in",))  # White space counts.


def _counted(served: Served) -> list[str]:
    """What the server counted: requests by path and status, pushes and signals."""
    lines = httpx2.get(f"{served.url}/metrics").text.splitlines()
    names = ("contextrelay_http_requests_total", "contextrelay_pushes", "contextrelay_signals")
    return sorted(line for line in lines if line.startswith(names))


def shown(template: Template, reply: httpx2.Response, *, without: tuple[str, ...] = ()) -> Any:
    plain = Plain(template.known())
    headers = {name: value for name, value in reply.headers.items() if name not in without}
    port = str(reply.request.url.port)
    text = reply.content.decode("latin-1").replace(f":{port}", ":PORT")
    return reply.status_code, headers, plain.text(text)


class GatedLedger(LedgerView):
    """Lets commits pass once its gate is open, and counts the artifacts that each makes."""

    def __init__(self, inner: Ledger) -> None:
        super().__init__(inner)
        self.gate = Event()
        self.made: list[int] = []

    def commit(self, *writes: Write, id: bytes = b"") -> list[int]:
        assert self.gate.wait(30)
        self.made.append(sum(write.log.startswith(ARTIFACTS) for write in writes if write.facts))
        return super().commit(*writes, id=id)


Pushed = tuple[str | None, Push, bytes]


@EXAMPLES
@given(data=st.data(), is_damaged=st.booleans())
def test_concurrent_pushes_over_http_are_pushed_as_one_by_one(
    template: Template, data: st.DataObject, is_damaged: bool
) -> None:
    """Promise S4. Threads, quotas and keys are left out: there the order decides."""
    drawn = data.draw(st.lists(pushes(template), min_size=24, max_size=48))
    asked: list[Pushed] = [
        (caller, replace(verb, thread=None), body)
        for caller, verb, body, _ in drawn
        if caller != "short"
    ]
    more = [*DAMAGED, *(b"body %d" % number for number in range(8))]
    asked += [(None, Push(channel="news"), body) for body in more]
    damaged = DAMAGED if is_damaged else ()
    homes = [template.twin(name) for name in ("concurrent", "single")]
    came: list[list[Any]] = []
    made: list[list[int]] = []
    for home, is_together in zip(homes, (True, False), strict=True):
        with serving(home) as served:
            stores = served.door.relay.stores
            damage(stores, damaged)
            ledger = GatedLedger(stores.ledger)
            force_setattr(stores.engine, "ledger", ledger)
            Fate(stores)
            came.append(push_all(served, template, asked, ledger.gate, is_together))
            made.append(ledger.made)

    assert came[0] == came[1]
    check_twins(template, homes, ("bytes_in",))
    assert is_damaged or max(made[0]) > 1, "none shared a commit"
    assert max(made[1]) == 1


def push_all(
    served: Served, template: Template, asked: list[Pushed], gate: Event, is_together: bool
) -> list[Any]:
    """Send pushes without idempotency keys, as clients of others do, and return the replies.

    Together, all are sent before the first is committed.
    """
    plain = Plain(template.known())
    sent: list[HTTPConnection] = []
    replies: list[Any] = []

    def read() -> None:
        with closing(sent.pop(0)) as connection:
            reply = connection.getresponse()
            text = plain.text(reply.read().decode("latin-1").replace(f":{served.port}", ":PORT"))
            replies.append((reply.status, text))

    for caller, verb, body in asked:
        headers = {"content-type": verb.media_type or "text/plain", "x-relay-from": verb.created_by}
        if caller is not None:
            headers["authorization"] = f"Bearer {template.keys[caller].token}"
        if verb.media_type is None and body.isascii():
            headers["content-type"] = "application/json"
            named = ("name", "type", "metadata", "channel")
            body = encode({"data": body.decode()} | {name: getattr(verb, name) for name in named})
        sent.append(HTTPConnection("127.0.0.1", served.port, timeout=60))
        sent[-1].request("POST", "/push", body, headers)
        if not is_together:
            gate.set()
            read()
    httpx2.get(f"{served.url}/health")  # By then the server has read the requests before it.
    gate.set()
    while sent:
        read()
    return replies


@st.composite
def reads(draw: st.DrawFn, template: Template) -> tuple[str, dict[str, str]]:
    ref = draw(st.sampled_from([template.refs[name] for name in REFS] + [NOWHERE]))
    query = draw(st.sampled_from(("", "?raw=1", "?raw=1&x=2", "?raw=0", "?")))
    headers: dict[str, str] = {"accept-encoding": draw(st.sampled_from(("identity", "gzip")))}
    caller = draw(st.sampled_from((*CALLERS, "wrong")))
    if caller is not None:
        token = "relay_no" if caller == "wrong" else template.keys[caller].token
        headers["authorization"] = f"Bearer {token}"
    accept = draw(st.sampled_from(("", "", "application/octet-stream", "text/html")))
    if accept:
        headers["accept"] = accept
    if draw(st.booleans()):
        headers["x-relay-reader"] = draw(st.sampled_from(("person", "agent")))
    return f"/{draw(st.sampled_from(('pull', 'peek')))}/{ref}{query}", headers


@EXAMPLES
@given(data=st.data())
def test_a_read_answered_inline_is_as_any_other(template: Template, data: st.DataObject) -> None:
    """Promise R3."""
    requests = data.draw(st.lists(reads(template), min_size=20, max_size=60))

    def send(web: httpx2.Client, each: tuple[str, dict[str, str]], is_fast: bool) -> Any:
        path, headers = each
        # With a tag that nothing has, a request is not an everyday one.
        tag = {} if is_fast else {"if-none-match": '"none"'}
        return shown(template, web.get(path, headers=headers | tag))

    compare(template, requests, send)


@st.composite
def json_requests(draw: st.DrawFn, template: Template) -> tuple[str, dict[str, str], bytes]:
    thread = template.things.thread
    text = draw(st.sampled_from(("words", "[1, 2]", "", "ä\u2028\U0001f642", "x" * 5_000)))
    bodies: dict[str, Any] = {
        "/push": {"data": text, "channel": "war room", "metadata": {"n": 1}},
        f"/v1/threads/{thread}/state": {
            "operations": [{"op": "add", "path": "/facts/-", "value": {"key": "k", "value": text}}]
        },
        "/v1/channels/war%20room": {"message": text or None},
        "/v1/threads": {"name": text[:9]},
        "/v1/nowhere": {},
    }
    path = draw(st.sampled_from(sorted(bodies)))
    headers = {"content-type": "application/json", "x-relay-from": "agent"}
    caller = draw(st.sampled_from(CALLERS))
    if caller is not None:
        headers["authorization"] = f"Bearer {template.keys[caller].token}"
    if not draw(st.integers(0, 2)):
        headers["idempotency-key"] = f"{caller} {path} {text[:9]!a}"
    raw = encode(bodies[path]) if draw(st.integers(0, 9)) else b'{"data": '
    return path, headers, raw


@EXAMPLES
@given(data=st.data(), padding=st.sampled_from((64 * KIB, 200 * KIB, 600 * KIB)))
def test_a_large_json_body_is_taken_as_a_small_one(
    template: Template, data: st.DataObject, padding: int
) -> None:
    """Promise M3: white space makes it large, and no more."""
    requests = data.draw(st.lists(json_requests(template), min_size=8, max_size=20))

    def send(web: httpx2.Client, each: tuple[str, dict[str, str], bytes], is_fast: bool) -> Any:
        path, headers, raw = each
        method = "PATCH" if path.endswith("/state") else "POST"
        body = raw if is_fast else b" " * padding + raw
        reply = web.request(method, path, headers=headers, content=body)
        # A refusal before the body is read ends the connection.
        return shown(template, reply, without=("connection", "content-length"))

    compare(template, requests, send)


# The local client, and the remote one

# Not the same in any two stores: addresses, backups with times in them, and long maintenance.
APART = {"Backup", "Restore", "Survey", "Verify", "Sweep", "RebuildSearch", "ExportThread"}
KINDS = [kind for kind in VERBS if kind.traits.http and kind.__name__ not in APART]
Request = tuple[Verb[Any], Body, str]


def ask_both(template: Template, caller: str | None, asked: Sequence[Request]) -> None:
    """Ask a store and a server over its twin, and compare what they say and what is left."""
    plain = Plain(template.known())
    homes = [template.twin(name) for name in ("local", "remote")]
    made = None if caller is None else template.keys[caller]
    with serving(homes[1]) as served, closing(Local(open_stores(homes[0], None))) as store:
        fate = Fate(served.door.relay.stores, store.stores)
        local = store if made is None else store.with_permissions_of(made.key)
        remote = Remote(server_at(served.url, made and made.token))
        try:
            for number, each in enumerate(asked):
                fate.turn(number)
                # A remote client makes a key for each request that has none.
                sent = (*each[:2], each[2] or f"request {number}")
                here = plain.reply(attempt(partial(local.ask, *sent)))
                there = plain.reply(attempt(partial(remote.ask, *sent)))
                assert here == there, each[0]
        finally:
            remote.close()
    # A server counts the uses of keys.
    check_twins(template, homes, ("bytes_in", "bytes_out", "requests"))


@pytest.mark.parametrize("caller", CALLERS)
def test_a_server_answers_as_the_store_does(template: Template, caller: str | None) -> None:
    """Promise M3: every verb, as every caller."""
    asked = [
        (verb, body_of(kind), "") for kind in KINDS for verb in examples(kind, template.things)
    ]

    ask_both(template, caller, asked)


@st.composite
def verbs(draw: st.DrawFn, template: Template) -> Request:
    kind = draw(st.sampled_from(KINDS))
    verb = draw(st.sampled_from(examples(kind, template.things)))
    refs = [*template.refs.values(), NOWHERE, template.things.ref]
    ref = draw(st.sampled_from(refs))
    if getattr(verb, "ref", None) is not None and "handoff" not in kind.__name__.lower():
        verb = replace(verb, ref=ref)
    # Where two things are wrong, either may be said first: a body that is refused goes nowhere.
    is_nowhere = getattr(verb, "thread", None) is not None and not draw(st.integers(0, 5))
    if is_nowhere:
        verb = replace(verb, thread=NOWHERE)
    body: Body = body_of(kind)
    if kind is PushMany:
        verb, body = PushMany([Push(channel="news"), Push(name="n")], [3, 4]), b"onetwo!"
    elif kind.traits.takes_body:
        body = b"" if is_nowhere else draw(st.sampled_from((b"", b"short", LINES * 4)))
    # The same request again, and never another one under its key, which is refused, too.
    key = sha256(f"{verb} {body!r}".encode()).hexdigest() if draw(st.booleans()) else ""
    return verb, body, key


@EXAMPLES
@given(data=st.data(), caller=st.sampled_from(CALLERS))
def test_random_requests_come_to_the_same_over_http(
    template: Template, data: st.DataObject, caller: str | None
) -> None:
    """Promise M3."""
    ask_both(template, caller, data.draw(st.lists(verbs(template), min_size=20, max_size=60)))


class Word(str):
    """A string that some encoders refuse."""


HOSTILE: tuple[Any, ...] = (
    *(0, 1, -1, 5, 2**31, 2**53, 2**64, -(2**70), 1.0, 2.5, 1e300, float("nan"), float("inf")),
    *(True, False, None, "", "x", "5", "null", '["a"]', "[", "a/b", "a\nb", "\x00", "\ud800"),
    *("x" * 300, "x" * 5_000, "\u202e", "Ä", Word("word"), b"bytes", b"", {1}, object(), 1j),
    *([], [1], ["x"], [None], [[]], (), ("x", 5), {}, {"a": 1}, {1: 2}, {"a": object()}),
    *({"a": float("nan")}, {"\ud800": 1}, [b"x"], [Push(name=5)], Push(ttl_s=0), st, int),  # pyright: ignore[reportArgumentType]
)


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def cyclic() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


@st.composite
def hostile_verbs(draw: st.DrawFn, template: Template) -> Request:
    kind = draw(st.sampled_from([kind for kind in KINDS if kind.__struct_fields__]))
    verb = draw(st.sampled_from(examples(kind, template.things)))
    value = st.sampled_from((*HOSTILE, nested(40), nested(2_000), cyclic()))
    names = draw(st.lists(st.sampled_from(kind.__struct_fields__), min_size=1, max_size=2))
    try:
        return replace(verb, **{name: draw(value) for name in names}), body_of(kind), ""
    except Invalid:  # A verb that checks its own values cannot be made with these.
        reject()


@EXAMPLES
@given(data=st.data())
def test_wrong_values_are_refused_alike_here_and_over_http(
    template: Template, data: st.DataObject
) -> None:
    """Promise M3: the same class of error, with the same code and message."""
    ask_both(template, None, data.draw(st.lists(hostile_verbs(template), min_size=50, max_size=99)))


@pytest.mark.parametrize("verb", [List(limit=0), Push(ttl_s=0), List(name=5)])  # pyright: ignore[reportArgumentType]
def test_a_store_in_process_refuses_wrong_values(verb: Verb[Any]) -> None:
    with closing(Local(open_stores("memory:", None))) as store, pytest.raises(Invalid):
        store.ask(verb)
