"""Options of the page, as those who start a server give them."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from secrets import token_bytes

from msgspec import Struct, field


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
