"""What a client sends as a query or a path is what arrives, for every verb and every value."""

from __future__ import annotations

import math
import types
from collections.abc import Generator
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints
from urllib.parse import urlsplit

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from msgspec import UNSET, Meta, Struct, UnsetType, ValidationError, convert, to_builtins
from msgspec.structs import asdict, fields

from contextrelay import Invalid, Relay
from contextrelay.documents.patch import Operation
from contextrelay.server.request import decoded, query_fields
from contextrelay.verbs import (
    Grep,
    List,
    ListThreads,
    PatchState,
    Publish,
    Push,
    PushMany,
    ReadSignals,
    ReadState,
    Slice,
    Verb,
)
from contextrelay.verbs.routes import Route, decode_verb, encode_verb, routes, spell_query
from tests.server.serving import serving

# Texts that look like something else.
ODD = (
    *("null", "true", "false", "1", "1.0", "-0", "", " ", " a ", "NaN", "None", "a+b", "a%20b"),
    *('["a","b"]', '["a"]', "[]", '["', '["]', '["a]', '[["a"]]', '"a"', "{}", '{"a":1}', "&a=b"),
    *("a=b", "#", "/", "..", ".", "...", "a/../b", "%2E%2E", "?", "\\", "a\tb", "ä\u202eb", ";"),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.sampled_from(ODD),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(ODD), inner),
    max_leaves=4,
)
ALL = [route for route in routes() if not route.name]


def values_of(hint: Any, bounds: Meta | None = None) -> st.SearchStrategy[Any]:
    """Values of a type as the fields of verbs have it."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return values_of(args[0], args[1] if isinstance(args[1], Meta) else bounds)
    if origin in (Union, types.UnionType):
        return st.one_of(*map(values_of, args))
    if origin is Literal:
        return st.sampled_from(args)
    if origin in (tuple, list):
        each = st.lists(values_of(args[0]), max_size=3)
        return each.map(tuple) if origin is tuple else each
    if origin is dict:
        return st.dictionaries(st.sampled_from(ODD), JSON, max_size=2)
    if hint is str and bounds is not None and bounds.pattern is not None:
        return st.from_regex(bounds.pattern, fullmatch=True)
    if hint is str:
        return st.sampled_from(ODD) | st.text(max_size=8)
    if hint is int:
        least, most = (bounds.ge, bounds.le) if bounds is not None else (None, None)
        return st.integers(
            int(least) if least is not None else -(2**40),
            int(most) if most is not None else 2**40,
        )
    if hint is bool:
        return st.booleans()
    if hint is float:
        return st.floats(0, 1)
    if hint is Any:
        return JSON
    if hint is type(None):
        return st.none()
    return st.fixed_dictionaries(fields_of(hint))


@cache
def fields_of(kind: type[Struct]) -> dict[str, st.SearchStrategy[Any]]:
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: _without_unset(hints[field.name]) for field in fields(kind)}


def _without_unset(hint: Any) -> st.SearchStrategy[Any]:
    kinds = [each for each in get_args(hint) if each is not UnsetType]
    return st.one_of(*map(values_of, kinds)) if UnsetType in get_args(hint) else values_of(hint)


@st.composite
def verbs_of(draw: st.DrawFn, route: Route) -> Verb[Any] | None:
    given = {name: draw(values) for name, values in fields_of(route.verb).items()}
    try:
        return convert(to_builtins(given), route.verb)
    except (ValidationError, Invalid):
        return None


@pytest.mark.parametrize("route", ALL, ids=lambda route: route.verb.__name__)
@settings(max_examples=30, deadline=None, derandomize=True, database=None, phases=[Phase.generate])
@given(data=st.data())
def test_what_is_sent_is_what_arrives(route: Route, data: st.DataObject) -> None:
    """Promise M3: a text that looks like something else, too."""
    verb = data.draw(verbs_of(route))
    if verb is None:
        return

    asked = encode_verb(verb)
    target = urlsplit(asked.target)
    parts = [decoded(part) for part in target.path.encode().split(b"/")]
    assert not set(target.path.split("/")) & {".", ".."}
    in_path = {
        part[1:-1]: parts[index]
        for index, part in enumerate(route.path.split("/"))
        if part.startswith("{")
    }
    arrived = decode_verb(route, in_path, query_fields(target.query.encode()), asked.json)

    assert arrived == verb
    if route.takes_body:
        bare = {name: value for name, value in _sent(verb).items() if name not in in_path}
        query = query_fields(spell_query(route.verb, bare).encode())
        assert decode_verb(route, in_path, query, None) == verb


def _sent(verb: Verb[Any]) -> dict[str, Any]:
    """The fields of a verb that are not the default."""
    defaults = {field.name: field.default for field in fields(type(verb))}
    return {
        name: value
        for name, value in asdict(verb).items()
        if value is not UNSET and value != defaults[name]
    }


NAMES = ("null", "true", "1", '["a","b"]', '["a"]', "..", " null")


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[Relay, Relay, str]]:
    """A store, a server over it, and a document with sections of these names."""
    store: Path = tmp_path_factory.mktemp("query") / "store"
    with Relay(store) as local, serving(store) as served, Relay(served.url) as remote:
        for name in NAMES:
            local.new_thread(name)
            local.push(name, name=name if name != ".." else "dots")
        page = "".join(f"# {name}\n\nbody\n\n" for name in (*NAMES, "a"))
        yield local, remote, local.push(page, name="page.md").ref


@pytest.mark.parametrize("name", NAMES)
def test_a_server_finds_what_the_store_finds(both: tuple[Relay, Relay, str], name: str) -> None:
    """Promise M3."""
    store, server, ref = both

    local, remote = ([*_found(relay, ref, name)] for relay in (store, server))
    server.publish(name, "x")

    assert local == remote
    assert name in local[1]  # Others may have an id that begins with it.
    assert name.strip('["] ')[0] in local[2]
    assert local[3] > 0
    assert store.transport.ask(ReadSignals(name)).head == 1


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, b"x", {1}, {1: 2}, 2**64, "\ud800"], ids=repr
)
def test_a_value_that_is_not_json_is_refused_alike_by_store_and_server(
    both: tuple[Relay, Relay, str], value: Any
) -> None:
    """Promise M3: a value never arrives as another one."""
    store, server, _ = both
    thread = store.new_thread("values").id
    operation = Operation("add", "/facts/-", {"key": "k", "value": value})
    sent = [
        (Push(metadata={"x": value}), b"body"),
        (Publish("values", {"x": value}), b""),
        (PatchState(thread, [operation]), b""),
        (PatchState(thread, [{"op": "add", "path": "/facts/-", "value": value}]), b""),
    ]

    for verb, body in sent:
        errors: list[str] = []
        for relay in (store, server):
            with pytest.raises(Invalid) as refused:
                relay.transport.ask(verb, body)
            errors.append(str(refused.value))
        assert errors[0] == errors[1]
    assert store.transport.ask(ReadState(thread)).version == 1


def test_a_text_that_is_not_utf8_is_refused_alike_by_store_and_server(
    both: tuple[Relay, Relay, str],
) -> None:
    errors: list[str] = []
    for relay in both[:2]:
        with pytest.raises(Invalid) as refused:
            relay.transport.ask(List(name="\ud800"))
        errors.append(str(refused.value))

    assert errors[0] == errors[1]


@pytest.mark.parametrize("patterns", [(), "", ("",), ("a", "")])
def test_a_grep_has_a_pattern(patterns: Any) -> None:
    with pytest.raises(Invalid, match="pattern: must not be empty"):
        Grep(patterns)


@pytest.mark.parametrize("ttl", ["60", "60.0", "6e1"])
def test_a_whole_float_changes_no_other_value(ttl: str) -> None:
    """An integer may be written 60.0; metadata keep their floats all the same."""
    one = f'{{"ttl_s": {ttl}, "metadata": {{"x": 1.0}}}}'
    push, push_many = (next(each for each in ALL if each.verb is verb) for verb in (Push, PushMany))

    alone = decode_verb(push, {}, {}, one.encode())
    many = decode_verb(push_many, {}, {}, f'{{"items": [{one}], "sizes": [1]}}'.encode())

    assert isinstance(alone, Push)
    assert isinstance(many, PushMany)
    for each in (alone, many.items[0]):
        assert each.ttl_s == 60
        assert isinstance(each.metadata["x"], float)


def _found(relay: Relay, ref: str, name: str) -> Generator[Any]:
    """What is found by a name: artifacts, threads, a section, matches."""
    ask = relay.transport.ask
    yield [each.name for each in ask(List(name=name)).artifacts]
    yield [each.name for each in ask(ListThreads(text=name)).threads]
    heading = name.strip('[]"')  # Brackets in a heading make a link, which has no such name.
    yield ask(Slice(ref, heading="a" if "," in heading else heading)).text
    yield ask(Grep(name, is_fixed=True)).count


@pytest.mark.parametrize(
    "query", ["limit=1.0", "limit=1e0", "limit=true", "limit=", "limit=%221%22"]
)
def test_an_integer_in_a_query_is_written_as_one(query: str) -> None:
    """Promise M3: in digits alone."""
    route = next(each for each in routes() if each.verb is List)

    with pytest.raises(Invalid, match="limit: expected"):
        decode_verb(route, {}, query_fields(query.encode()), None)
