"""A reader: opens pages and sends their forms, as a browser does, within its session."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import httpx2

ACCEPT = {"accept": "text/html"}
SESSION = re.compile(r"/ui/~[\w-]{22}/")


class Form:
    """A form of a page: where it is sent, and its fields as they are."""

    def __init__(self, action: str, method: str) -> None:
        self.action, self.method = action, method
        self.fields: dict[str, str] = {}


class Page(HTMLParser):
    """A page as it came."""

    def __init__(self, reply: httpx2.Response) -> None:
        super().__init__()
        self.reply = reply
        self.status = reply.status_code
        self.html = reply.text
        self.forms: list[Form] = []
        self.links: list[str] = []
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.feed(self.html)

    @property
    def text(self) -> str:
        """What a person reads."""
        return " ".join(" ".join(self.texts).split())

    def form(self, action: str) -> Form:
        """The form that is sent to an address that ends so, one that changes something first."""
        forms = sorted(self.forms, key=lambda form: form.method != "post")
        return next(form for form in forms if SESSION.sub("/ui/", form.action).endswith(action))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = {name: value or "" for name, value in attrs}
        self.tags.append(tag)
        if tag == "a":
            self.links.append(named.get("href", ""))
        if tag == "form":
            self.forms.append(Form(named.get("action", ""), named.get("method", "get")))
        if tag in ("input", "textarea") and "name" in named and self.forms:
            self.forms[-1].fields[named["name"]] = named.get("value", "")

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


class Reader:
    """A browser without scripts, with its cookies and the path of its session."""

    def __init__(self, web: httpx2.Client) -> None:
        self.web = web
        self.root = "/ui/"

    def within(self, path: str) -> str:
        """The address of a page in the session."""
        return re.sub("^/ui/", self.root, path)

    def open(self, path: str) -> Page:
        return Page(self.web.get(self.within(path), headers=ACCEPT, follow_redirects=True))

    def json(self, path: str) -> Any:
        return self.web.get(self.within(path)).raise_for_status().json()

    def send(self, form: Form, /, **fields: str) -> Page:
        """Send a form; the page that it leads to."""
        reply = self.web.post(
            form.action, data={**form.fields, **fields}, headers=ACCEPT, follow_redirects=True
        )
        return Page(reply)

    def enter(self, key: str) -> Page:
        """Sign in."""
        page = self.send(self.open("/ui/").form("/ui/enter"), key=key)
        if found := SESSION.match(page.reply.url.path):
            self.root = found[0]
        return page
