"""Addresses: which of them are public, whatever they are wrapped in."""

from __future__ import annotations

import pytest

from contextrelay.access import reach_of


@pytest.mark.parametrize(
    "address",
    [
        "1.1.1.1",
        "93.184.216.34",
        "172.15.255.255",
        "172.32.0.0",
        "192.167.255.255",
        "223.255.255.255",
        "2606:4700:4700::1111",
        "2a00:1450::1",
        "::ffff:1.1.1.1",
        "64:ff9b::101:101",
    ],
)
def test_what_is_public(address: str) -> None:
    assert reach_of(address) == "public"


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.255.255.254",
        "10.0.0.1",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "100.64.0.1",
        "100.127.255.255",
        "::1",
        "fd12:3456::1",
        "fc00::",
        "::ffff:10.0.0.1",
        "::ffff:7f00:1",
        "64:ff9b::127.0.0.1",
    ],
)
def test_what_is_private(address: str) -> None:
    """Promise C1."""
    assert reach_of(address) == "private"


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0",
        "0.1.2.3",
        "169.254.169.254",
        "169.254.0.1",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.1",
        "192.0.2.1",
        "192.88.99.1",
        "198.18.0.1",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::127.0.0.1",
        "::ffff:169.254.169.254",
        "::ffff:0.0.0.0",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::7f00:1",
        "fe80::1",
        "fe80::1%eth0",
        "fec0::1",
        "ff02::1",
        "2001::1",
        "2001:db8::1",
        "2002:7f00:1::",
        "2002:101:101::",
        "3fff::1",
        "fd00:ec2::254",
        "4000::1",
        "100::1",
        "",
        "localhost",
        "127.0.0.1.example.org",
        "0177.0.0.1",
        "2130706433",
    ],
)
def test_what_is_never_reached(address: str) -> None:
    """Promise C1."""
    assert reach_of(address) == "never"
