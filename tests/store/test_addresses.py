"""Addresses that cannot be read: refused with the next step, and nothing of a password is shown."""

from __future__ import annotations

import pytest

from contextrelay.errors import Invalid
from contextrelay.store.engine import open_engine
from contextrelay.store.postgres.client import PostgresClient
from contextrelay.store.redis.address import parse

UNESCAPED = [
    "postgresql://u1:my%zzSECRET@127.0.0.1:1/relay",
    "postgresql://u1:my%00SECRET@127.0.0.1:1/relay",
    "postgresql://u1:SECRET@[::1/relay",
    "postgresql://u1:pre@SECRET@127.0.0.1/relay",
    "postgresql://u1:pre/SECRET@127.0.0.1/relay",
    "postgresql://u1:pre?SECRET@127.0.0.1/relay",
    "postgresql://u1:SECRET",
    "redis://user:p@SECRET/w0rd@127.0.0.1:1",
    "redis://user:p@SECRET@127.0.0.1:1",
    "redis://:p/SECRET@127.0.0.1:1",
    "redis://:1?SECRET@127.0.0.1:1",
    "redis://:1#SECRET@127.0.0.1:1",
    "redis://:SECRET[@127.0.0.1:1/0",
    "redis://:SECRET\N{FULLWIDTH COMMERCIAL AT}@127.0.0.1:1/0",
    "redis://:SECRET@[::1/0",
    "redis://user:SECRET",
    "redis+sentinel://:p@SECRET@127.0.0.1:1/main",
    "redis+sentinel://:p/SECRET@127.0.0.1:1/main",
]


@pytest.mark.parametrize("address", UNESCAPED)
def test_an_unescaped_password_is_said_and_not_shown(address: str) -> None:
    with pytest.raises(Invalid) as refused:
        open_engine(address)

    assert "percent-encode the password" in refused.value.hint
    assert "SECRET" not in str(refused.value) + repr(refused.value.__cause__)


@pytest.mark.parametrize(
    "address",
    [
        "redis://:SECRET@127.0.0.1:1/0?bogusopt=x",
        "redis://:SECRET@127.0.0.1:1/0?ssl_ca_certs=/ca.pem",
        "redis://:SECRET@127.0.0.1:70000/0",
        "redis+sentinel://:SECRET@127.0.0.1:1/main/abc",
        "redis://:SECRET\0@127.0.0.1:1/0",
        "postgresql://u1:SECRET@127.0.0.1:1/relay?bogusopt=x",
    ],
)
def test_an_address_that_cannot_be_read_says_the_next_step(address: str) -> None:
    with pytest.raises(Invalid) as refused:
        open_engine(address)

    assert refused.value.hint
    assert "SECRET" not in str(refused.value)


@pytest.mark.parametrize(
    "address",
    ["redis://", "redis+sentinel://h1,h2:7,[fe80::1%25eth0]/main/2?sentinel_password=p%40w\n"],
)
def test_an_address_of_redis_that_can_be_read_is_taken(address: str) -> None:
    assert parse(address).url


@pytest.mark.parametrize(
    "address",
    [
        "postgresql:///relay?host=/var/run/postgresql",
        "postgresql://me:p#w%40@h1:1,[::1]:2/relay?target_session_attrs=read-write",
        "postgres://%2Fvar%2Frun/relay?options=-c%20statement_timeout%3D5min&ssl=true",
    ],
)
def test_an_address_of_postgres_that_can_be_read_is_taken(address: str) -> None:
    assert PostgresClient(address).shown
