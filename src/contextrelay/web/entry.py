"""Sign-in to the web page: options, sessions, cookies and form tokens."""

from __future__ import annotations

import hmac
import os
import re
from base64 import urlsafe_b64encode
from contextlib import suppress
from pathlib import Path
from secrets import token_bytes, token_urlsafe
from typing import TYPE_CHECKING

from cryptography.fernet import Fernet, InvalidToken
from msgspec import Struct, field

from contextrelay.errors import Forbidden
from contextrelay.server.auth import Callers, Visitor, address_in, token_in, unknown

if TYPE_CHECKING:
    from contextrelay.server.request import Exchange

# Seconds for which a sign-in is valid.
PAGE_COOKIE_S = 12 * 3_600


def new_secret() -> str:
    """Return a new random secret for a server. Cookies and form tokens are valid as long as the
    server uses the same secret.
    """
    return urlsafe_b64encode(token_bytes(32)).decode()


class PageOptions(Struct, frozen=True, kw_only=True):
    """Options of the web page of a server."""

    secret: str = field(default_factory=new_secret)
    """The secret that encrypts the cookies. All processes of a server share it."""
    code: str = ""
    """A one-time code: the first person who uses it is signed in as the owner. "" for none."""
    remote: str = ""
    """The server that the page shows instead of the store, or ""."""
    folder: str = ""
    """The folder in which `relay ui` was started, for its project board; "" on a server."""
    address: str = ""
    """The address of the store, as its owner wrote it."""


COOKIE = "relay_page"
FORM_FIELD = "form"
_OWNER = b"owner"
_SESSION_BYTES = 16
_SESSION = re.compile(r"~([A-Za-z0-9_-]{22})/(.*)", re.DOTALL)
"""Matches the path below /ui/ of a signed-in browser: the session, and the rest of the path."""


class PageAccess:
    """Access control for the web page of one server."""

    def __init__(self, secret: str, code: str = "") -> None:
        self._box = Fernet(secret)
        self._secret = secret.encode()
        self._code = code
        """A one-time code: the first person who uses it is signed in as the owner."""

    async def admit(self, exchange: Exchange) -> Visitor:
        """Return the caller of a request to the page.

        Raises:
            Forbidden: there is neither a token nor a valid cookie of the session in the path.
        """
        callers = exchange.door.callers
        token, address = token_in(exchange.scope["headers"]), address_in(exchange.scope)
        if token is None and (cookie := cookie_in(exchange)):
            session, _ = split_session(exchange.values.get("path", ""))
            held = self._open(cookie, session)
            if held == _OWNER:
                return callers.owner
            token = None if held is None else held.decode()
        return await callers.admit(token, address)

    async def enter(self, exchange: Exchange, given: str) -> tuple[str, bytes]:
        """Start a session for a token or for the one-time code, and return its root path and its
        cookie.

        Raises:
            Forbidden: the token or code is invalid, or another account of this machine sent the
                code.
        """
        callers: Callers = exchange.door.callers
        is_code = bool(self._code) and hmac.compare_digest(given.encode(), self._code.encode())
        if is_code and not _is_of_another_account(exchange):
            self._code = ""
            return self._session(exchange, _OWNER)
        if not given:
            raise unknown()
        await callers.admit(given, address_in(exchange.scope))
        return self._session(exchange, given.encode())

    def _open(self, cookie: str, session: str) -> bytes | None:
        """Return the token in a cookie, or None if the cookie is not valid for the session."""
        try:
            held = self._box.decrypt(cookie, PAGE_COOKIE_S)
        except InvalidToken:
            return None
        of, _, token = held.partition(b" ")
        return token if session and of == session.encode() else None

    def _session(self, exchange: Exchange, token: bytes) -> tuple[str, bytes]:
        session = token_urlsafe(_SESSION_BYTES)
        value = self._box.encrypt(b"%b %b" % (session.encode(), token)).decode()
        return root_of(session), _cookie(exchange, root_of(session), value, PAGE_COOKIE_S)

    def form_token(self, exchange: Exchange) -> str:
        """Return the token that every form of a page must contain."""
        key = exchange.visitor.key
        said = f"{cookie_in(exchange)}|{'' if key is None else key.id}"
        return hmac.new(self._secret, said.encode(), "sha256").hexdigest()

    def check_form(self, exchange: Exchange, given: str) -> None:
        """Check that a change was sent by a form of the page.

        Raises:
            Forbidden: the form token is invalid.
        """
        if not hmac.compare_digest(given.encode(), self.form_token(exchange).encode()):
            raise Forbidden("this form has expired", "go back, reload the page and send it again")


def _is_of_another_account(exchange: Exchange) -> bool:
    """Return True if the kernel says that the connection is from another account (Linux only).

    The code is in the command line of the browser that was opened, which all accounts can read.
    """
    ports = [f"{exchange.scope[end][1]:04X}" for end in ("client", "server")]
    ours = {"0", str(os.geteuid()), os.environ.get("SUDO_UID", "")}
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with suppress(OSError):
            for row in map(str.split, Path(table).read_text().splitlines()[1:]):
                if [end[-4:] for end in row[1:3]] == ports and row[7] not in ours:
                    return True
    return False


def split_session(path: str) -> tuple[str, str]:
    """Return the session of a path below /ui/ ("" for none), and the rest of the path."""
    found = _SESSION.fullmatch(path)
    return (found[1], found[2]) if found else ("", path)


def root_of(session: str) -> str:
    """Return the path with which all addresses of a session begin."""
    return f"/ui/~{session}/" if session else "/ui/"


def leave(exchange: Exchange, root: str) -> bytes:
    """Return the Set-Cookie header that deletes the cookie of a session."""
    return _cookie(exchange, root, "", 0)


def cookie_in(exchange: Exchange) -> str:
    """Return the value of the page's cookie, or "" if there is none.

    If there are several, return the first, which has the longest path. A service on another port
    cannot set a cookie for the path of the session.
    """
    for part in exchange.header("cookie").split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE:
            return value
    return ""


def new_once() -> str:
    """Return an idempotency key for a form, so that sending it twice has one effect."""
    return token_urlsafe(16)


def _cookie(exchange: Exchange, root: str, value: str, seconds: int) -> bytes:
    secure = "; Secure" if exchange.origin.startswith("https:") else ""
    rules = f"Path={root}; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"
    return f"{COOKIE}={value}; {rules}".encode()
