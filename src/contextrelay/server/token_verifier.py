"""Tokens of identity providers: their owner and permissions.

A server that is started with a verifier, `MODULE:FUNCTION`, calls this function for every token
that is not a key of its store. The function returns None for an invalid token, otherwise the
identity and permissions:

    def verify(token):
        return {"subject": "ada", "scope": "write", "tenant": "acme", "expires_at": 1800000000}

Clients find the provider in the metadata of RFC 9728, at /.well-known/oauth-protected-resource.

Rule: a verifier runs in a thread. Its result is validated like any input.
"""

from __future__ import annotations

import hashlib
import importlib
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any

from msgspec import Meta, MsgspecError, Struct, convert

from contextrelay.errors import Invalid, NotFound, Unavailable
from contextrelay.limits import LABEL_CHARS_MAX, NUMBER_MAX
from contextrelay.model.key import ID_BYTES, Key, Prefixes, Scope, Tenant
from contextrelay.server.auth import RESOURCE
from contextrelay.server.request import Exchange
from contextrelay.server.router import SERVER, Endpoint

log = logging.getLogger("contextrelay.http")

_HINT = "name a function that takes a token, for example --token-verifier package.module:verify"


class Verified(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a verifier returns for a valid token."""

    subject: Annotated[str, Meta(min_length=1, max_length=LABEL_CHARS_MAX)]
    scope: Scope = "read"
    tenant: Tenant | None = None
    threads: Prefixes = ()
    channels: Prefixes = ()
    expires_at: Annotated[float, Meta(ge=0, le=NUMBER_MAX)] | None = None


class TokenVerifier:
    """A verifier function from outside this package."""

    def __init__(self, name: str) -> None:
        module, _, function = name.partition(":")
        try:
            found: Any = getattr(importlib.import_module(module), function)
        except (ImportError, AttributeError, ValueError) as error:
            raise Invalid(
                f"cannot load the token verifier {name[:120]!r}: {error}", _HINT
            ) from error
        if not callable(found):
            raise Invalid(f"the token verifier {name[:120]!r} is not a function", _HINT)
        self._verify: Callable[[str], Any] = found

    def key_of(self, token: str) -> Key | None:
        """Return the identity of a token as a key, or None if the token is invalid. This may be
        slow.

        Raises:
            Unavailable: the verifier failed.
        """
        try:
            answer = self._verify(token)
            if answer is None:
                return None
            verified = convert(answer, Verified)
            expires_at = (
                None
                if verified.expires_at is None
                else datetime.fromtimestamp(verified.expires_at, UTC)
            )
        except Exception as error:
            what = "returned an invalid result" if isinstance(error, MsgspecError) else "failed"
            log.exception("the token verifier %s", what)
            raise Unavailable(
                "the identity provider failed to verify the token", "see the server's log"
            ) from error
        named = f"{verified.tenant or ''}|{verified.subject}".encode()
        return Key(
            id=hashlib.sha256(named).hexdigest()[: 2 * ID_BYTES],
            name=verified.subject,
            scope=verified.scope,
            tenant=verified.tenant,
            threads=verified.threads,
            channels=verified.channels,
            quota_bytes=None,
            requests_per_minute=None,
            created_at=datetime.now(UTC),
            expires_at=expires_at,
        )


class Identity(Struct, frozen=True, kw_only=True):
    """The identity providers of a server, and the function that verifies their tokens."""

    servers: tuple[str, ...] = ()
    verifier: str = ""

    def verify(self) -> Callable[[str], Key | None] | None:
        """Return the function that verifies tokens, or None if none is configured.

        Raises:
            Invalid: the function cannot be loaded, or there are identity providers but no function.
        """
        if self.servers and not self.verifier:
            raise Invalid("an identity provider needs a token verifier", _HINT)
        return TokenVerifier(self.verifier).key_of if self.verifier else None


class Metadata(Struct, frozen=True, kw_only=True):
    """The metadata of a protected resource (RFC 9728)."""

    resource: str
    authorization_servers: tuple[str, ...]
    scopes_supported: tuple[str, ...] = ("read", "write", "admin")
    bearer_methods_supported: tuple[str, ...] = ("header",)
    resource_name: str = "Context Relay"


async def protected_resource(exchange: Exchange) -> None:
    """Return the identity providers of this server (RFC 9728). The status is 404 if there is
    none.
    """
    servers = exchange.door.auth_servers
    if not servers:
        raise NotFound(
            "this server has no identity provider; it uses its own keys",
            "create a key: relay keys new",
        )
    resource = exchange.origin + exchange.scope["path"].removeprefix(RESOURCE)
    await exchange.reply_json(Metadata(resource=resource, authorization_servers=servers))


ENDPOINTS = [
    Endpoint(
        http=f"GET {RESOURCE}{path}",
        handler=protected_resource,
        id=f"protectedResource{path[1:].title()}",
        tag=SERVER,
        gives=Metadata,
        fails=(404,),
    )
    for path in ("", "/mcp")
]
