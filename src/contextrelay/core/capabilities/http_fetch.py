"""`http.fetch`, the capability that gets what a URL leads to (bounded/fetch.py)."""

from __future__ import annotations

from urllib.parse import urlsplit

from contextrelay.access import reach_of
from contextrelay.bounded.fetch import fetch
from contextrelay.bounded.fetch_target import Ways
from contextrelay.core.capabilities.registry import Call, Result
from contextrelay.documents.bounds import check_name
from contextrelay.errors import Invalid
from contextrelay.limits import (
    FETCH_BYTES_MAX,
    FETCH_PREVIEW_CHARS,
    PREVIEW_BYTES_MAX,
    URL_CHARS_MAX,
)
from contextrelay.model.capability import Capability

FETCH = Capability(
    name="http.fetch",
    description="Get what an http or https URL leads to: at most 10 MB, within 30 seconds.",
    args_schema={
        "type": "object",
        "properties": {
            "url": {
                "type": "string",
                "minLength": 1,
                "maxLength": URL_CHARS_MAX,
                "description": "an http or https URL",
            },
            "method": {"enum": ["GET"], "default": "GET"},
            "preview_size": {
                "type": "integer",
                "minimum": 1,
                "maximum": PREVIEW_BYTES_MAX,
                "default": FETCH_PREVIEW_CHARS,
                "description": "how many characters the preview shows at most",
            },
        },
        "required": ["url"],
        "additionalProperties": False,
    },
    cacheable=True,
    cache_ttl_s=600,
    version="1",
)


def run(call: Call) -> Result:
    """Answer one fetch."""
    settings = call.stores.settings
    wanted = ("public", "private") if settings.fetch_private else ("public",)
    ways = Ways(
        lambda address: reach_of(address) in wanted,
        bytes_max=min(FETCH_BYTES_MAX, settings.body_bytes_max),
    )
    fetched = fetch(str(call.args["url"]), ways)
    return Result(
        fetched.body,
        fetched.media_type,
        _name_in(fetched.url),
        {"url": fetched.url, "status": fetched.status},
    )


def _name_in(url: str) -> str | None:
    """The last part of a URL's path, if it can be a name."""
    name = urlsplit(url).path.rpartition("/")[2]
    try:
        return check_name(name) if name else None
    except Invalid:
        return None
