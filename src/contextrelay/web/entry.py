"""Options of the page, as those who start a server give them."""

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

# How long a sign-in to the page holds.
PAGE_COOKIE_S = 12 * 3_600


def new_secret() -> str:
    """A secret of a server: its cookies and form tokens hold as long as it has that."""
    return urlsafe_b64encode(token_bytes(32)).decode()


class PageOptions(Struct, frozen=True, kw_only=True):
    """How the page of a server is to be."""

    secret: str = field(default_factory=new_secret)
    """With which its cookies are sealed; several processes have one."""
    code: str = ""
    """Lets its first user in as the owner."""
    remote: str = ""
    """The server that it shows, in place of the store."""
    folder: str = ""
    """Where `relay ui` was started, for the board of the project there; "" on a server."""
    address: str = ""
    """Of the store that it shows, as its owner calls it."""


COOKIE = "relay_page"
FORM_FIELD = "form"
_OWNER = b"owner"
_SESSION_BYTES = 16
_SESSION = re.compile(r"~([A-Za-z0-9_-]{22})/(.*)", re.DOTALL)
"""The path below /ui/ of a browser that has signed in: its session, and the rest."""


class PageAccess:
    """Who may see the page of one server."""

    def __init__(self, secret: str, code: str = "") -> None:
        self._box = Fernet(secret)
        self._secret = secret.encode()
        self._code = code
        """Lets its first user in as the owner."""

    async def admit(self, exchange: Exchange) -> Visitor:
        """Return the caller of a page.

        Raises:
            Forbidden: there is no token, and no valid cookie of the session in the path.
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
        """Begin a session for a token or the one-use code; return its root and its cookie.

        Raises:
            Forbidden: it is neither, or another account of this machine found the code.
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
        """Return the token in a cookie, or None if it is not a valid one of the session."""
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
        """What every form of a page carries."""
        key = exchange.visitor.key
        said = f"{cookie_in(exchange)}|{'' if key is None else key.id}"
        return hmac.new(self._secret, said.encode(), "sha256").hexdigest()

    def check_form(self, exchange: Exchange, given: str) -> None:
        """Refuse a change that comes from no form of ours.

        Raises:
            Forbidden: its form token is wrong.
        """
        if not hmac.compare_digest(given.encode(), self.form_token(exchange).encode()):
            raise Forbidden("this form is too old", "go back, reload the page and send it again")


def _is_of_another_account(exchange: Exchange) -> bool:
    """Whether the list of connections, which only Linux has, says that somebody else asks.

    The code is in the command line of the browser that is opened, which all accounts can read.
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
    """Split a path below /ui/ into its session, "" for none, and the rest."""
    found = _SESSION.fullmatch(path)
    return (found[1], found[2]) if found else ("", path)


def root_of(session: str) -> str:
    """Return the path with which every address of a session begins."""
    return f"/ui/~{session}/" if session else "/ui/"


def leave(exchange: Exchange, root: str) -> bytes:
    """Return the header that deletes a session's cookie."""
    return _cookie(exchange, root, "", 0)


def cookie_in(exchange: Exchange) -> str:
    """Return the page's cookie, or "" if there is none.

    The first of several: that has the longest path, and another port can set none for the session.
    """
    for part in exchange.header("cookie").split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE:
            return value
    return ""


def new_once() -> str:
    """An idempotency key for a form: sent twice, it is done once."""
    return token_urlsafe(16)


def _cookie(exchange: Exchange, root: str, value: str, seconds: int) -> bytes:
    secure = "; Secure" if exchange.origin.startswith("https:") else ""
    rules = f"Path={root}; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"
    return f"{COOKIE}={value}; {rules}".encode()
