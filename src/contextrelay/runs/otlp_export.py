"""OTLP over HTTP: where spans go, by OpenTelemetry's environment variables, and how they get there.

Rule: the headers, which may hold a key, go to the endpoint that they were set for and to no other
origin; redirects are not followed.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable, Mapping
from typing import Self
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

import httpx2
from msgspec import Struct

from contextrelay.build import build
from contextrelay.errors import Failed, Forbidden, Invalid, RelayError, Unavailable
from contextrelay.limits import (
    OTLP_HEADERS_MAX,
    OTLP_PAUSE_S,
    OTLP_SENDS_MAX,
    OTLP_TIMEOUT_S_DEFAULT,
    OTLP_TIMEOUT_S_MAX,
    URL_CHARS_MAX,
)
from contextrelay.runs.tracing.otlp import otlp_protobuf
from contextrelay.runs.tracing.spans import Span, Value

PREFIX = "OTEL_EXPORTER_OTLP_"
ENDPOINT = f"{PREFIX}ENDPOINT"
_PATH = "/v1/traces"
_AGAIN = (429, 502, 503, 504)
_HINT = "write http://HOST:4318, the OTLP/HTTP port of a collector"


class Target(Struct, frozen=True, kw_only=True):
    """Where spans are sent, and how."""

    url: str
    headers: dict[str, str] = {}
    timeout_s: float = OTLP_TIMEOUT_S_DEFAULT
    is_packed: bool = False
    resource: dict[str, Value] = {}

    @property
    def shown(self) -> str:
        """The URL without what may be a secret."""
        parts = urlsplit(self.url)
        return urlunsplit((parts.scheme, parts.netloc, parts.path, "", ""))


def target_in(environ: Mapping[str, str]) -> Target | None:
    """Where the environment says that spans go, if it does.

    Raises:
        Invalid: it is no URL.
    """
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    if environ.get("OTEL_TRACES_EXPORTER", "otlp") != "otlp":
        return None
    protocol = f"{PREFIX}PROTOCOL"
    if environ.get(protocol) == "grpc":
        raise Invalid(f"{protocol} is grpc", "set it to http/protobuf, and the port to 4318")
    if url := environ.get(f"{PREFIX}TRACES_ENDPOINT"):
        return _target(_parts(url), environ)
    if url := environ.get(ENDPOINT):
        parts = _parts(url)
        return _target(parts._replace(path=parts.path.rstrip("/") + _PATH), environ)
    return None


def target_at(url: str, environ: Mapping[str, str]) -> Target:
    """The target of a URL that a person gave: `/v1/traces` is added where it has no path.

    Raises:
        Invalid: it is no URL.
    """
    parts = _parts(url)
    if parts.path in ("", "/"):
        parts = parts._replace(path=_PATH)
    known = environ.get(f"{PREFIX}TRACES_ENDPOINT") or environ.get(ENDPOINT)
    target = _target(parts, environ)
    if known and _parts(known)[:2] != parts[:2]:
        return Target(url=target.url, timeout_s=target.timeout_s, resource=target.resource)
    return target


class Sender:
    """Sends spans to a target, over one connection."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._headers = {**target.headers, "content-type": "application/x-protobuf"}
        if target.is_packed:
            self._headers["content-encoding"] = "gzip"
        host = urlsplit(target.url).hostname or ""
        is_here = host in ("localhost", "::1") or host.startswith("127.")
        # Proxies are for what is elsewhere.
        self._client = httpx2.Client(
            timeout=target.timeout_s, follow_redirects=False, trust_env=not is_here
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ended: object) -> None:
        self._client.close()

    def send(self, spans: Iterable[Span], pause: Callable[[float], object]) -> None:
        """Send spans, again where that may help; `pause` waits so many seconds.

        Raises:
            Unavailable: nobody answers, or asks for them later.
            Forbidden: the headers are not good there.
            Failed: they are refused.
        """
        raw = otlp_protobuf(spans, self.target.resource, build().version)
        if self.target.is_packed:
            raw = gzip.compress(raw, 1)
        for sends_left in reversed(range(OTLP_SENDS_MAX)):
            try:
                self._post(raw)
                return
            except Unavailable:
                if not sends_left:
                    raise
                pause(OTLP_PAUSE_S * (OTLP_SENDS_MAX - sends_left))

    def _post(self, raw: bytes) -> None:
        target = self.target
        try:
            # Of the reply only the status is read: its body has no bound.
            with self._client.stream(
                "POST", target.url, content=raw, headers=self._headers
            ) as reply:
                status = reply.status_code
        except httpx2.HTTPError as error:
            raise Unavailable(f"{target.shown} does not answer: {error}", _HINT) from error
        except (ValueError, httpx2.InvalidURL) as error:
            raise Invalid(f"{target.shown} cannot be sent to: {error}", _HINT) from error
        if not 200 <= status < 300:
            raise _problem(target, status)


def _problem(target: Target, status: int) -> RelayError:
    said = f"{target.shown} answers {status}"
    if status in (401, 403):
        return Forbidden(said, f"set {PREFIX}HEADERS to what it wants")
    if status in _AGAIN:
        return Unavailable(said, "send again later")
    return Failed(said, _HINT)


def _parts(url: str) -> SplitResult:
    try:
        parts = urlsplit(url.strip())
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError as error:
        raise Invalid("that is no URL of an OTLP receiver", _HINT) from error
    if not is_url or len(url) > URL_CHARS_MAX or "@" in parts.netloc or not url.isprintable():
        raise Invalid("that is no URL of an OTLP receiver", _HINT)
    return parts


def _target(parts: SplitResult, environ: Mapping[str, str]) -> Target:
    def value(name: str) -> str:
        return environ.get(f"{PREFIX}TRACES_{name}") or environ.get(f"{PREFIX}{name}", "")

    try:
        timeout_s = float(value("TIMEOUT") or OTLP_TIMEOUT_S_DEFAULT * 1_000) / 1_000
    except ValueError:
        timeout_s = OTLP_TIMEOUT_S_DEFAULT
    return Target(
        url=urlunsplit(parts._replace(fragment="")),
        headers={name.lower(): each for name, each in _pairs(value("HEADERS")).items()},
        timeout_s=min(max(timeout_s, 0.001), OTLP_TIMEOUT_S_MAX),
        is_packed=value("COMPRESSION") == "gzip",
        resource=resource(environ),
    )


def resource(environ: Mapping[str, str]) -> dict[str, Value]:
    """What sends the spans, as its environment describes it."""
    return {
        "service.name": "contextrelay",
        "service.version": build().version,
        **_pairs(environ.get("OTEL_RESOURCE_ATTRIBUTES", "")),
        **({"service.name": name} if (name := environ.get("OTEL_SERVICE_NAME")) else {}),
    }


def _pairs(text: str) -> dict[str, str]:
    """`key=value,key2=value%202`; what is no pair is passed over, as the specification says."""
    pairs = (each.partition("=") for each in text.split(",")[:OTLP_HEADERS_MAX])
    return {
        name.strip(): unquote(value.strip()) for name, equals, value in pairs if name and equals
    }
