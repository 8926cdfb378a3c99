"""Caches in memory: what is kept, and what is dropped when a bound is passed."""

from __future__ import annotations

from contextrelay.cache import BoundedCache
from contextrelay.core.memory_cache import WARM_BODY_BYTES_MAX, WARM_BYTES_MAX, Warm


def test_the_first_kept_is_dropped_first() -> None:
    cache: BoundedCache[str, int] = BoundedCache(2)
    for number, key in enumerate("abc"):
        cache.keep(key, number)

    assert [cache.get(key) for key in "abc"] == [None, 1, 2]


def test_a_value_that_is_kept_again_is_the_newest() -> None:
    cache: BoundedCache[str, int] = BoundedCache(2)
    for number, key in enumerate("abac"):
        cache.keep(key, number)

    assert [cache.get(key) for key in "abc"] == [2, None, 3]


def test_bytes_are_bounded_and_given_back() -> None:
    cache: BoundedCache[str, str] = BoundedCache(None, 10)
    cache.keep("a", "first", 6)
    cache.keep("a", "smaller", 2)
    cache.keep("b", "other", 8)
    assert cache.size_bytes == 10

    cache.drop("a")
    cache.keep("c", "third", 2)

    assert cache.size_bytes == 10
    assert cache.get("b") == "other"


def test_a_value_larger_than_the_bound_is_kept_alone() -> None:
    cache: BoundedCache[str, str] = BoundedCache(None, 10)
    cache.keep("a", "small", 1)

    cache.keep("b", "large", 11)

    assert len(cache) == 1


def test_bodies_and_replies_share_one_allowance() -> None:
    warm = Warm()
    body = b"x" * WARM_BODY_BYTES_MAX
    for number in range(WARM_BYTES_MAX // len(body)):
        warm.keep(f"{number:064x}", body)

    warm.contents.keep(("text", "ref"), "a reply", 2 * len(body))

    assert warm.contents.size_bytes == WARM_BYTES_MAX
    assert warm.get(f"{0:064x}") is None
    assert warm.get(f"{2:064x}") == body
