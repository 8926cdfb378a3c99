"""Forms: a streaming parser of multipart/form-data bodies.

One part is the content. The other parts are short fields, before or after the content.

Rule: the number of parts, the size of their headers and the size of fields are limited. An
incomplete form is refused.
"""

from __future__ import annotations

import logging

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from contextrelay.errors import Invalid, TooLarge
from contextrelay.limits import KIB, MIB
from contextrelay.server.request import Exchange
from contextrelay.server.request_body import Upload
from contextrelay.verbs import Push

# Limits of a form: the number of parts, the size of the fields, and the headers of a part.
FORM_PARTS_MAX = 20
FORM_FIELD_BYTES_MAX = 64 * KIB
FORM_HEADERS_MAX = 8
FORM_HEADER_BYTES_MAX = 4 * KIB
FORM_BOUNDARY_BYTES_MAX = 70


MULTIPART = "multipart/form-data"
CONTENT_PARTS = ("file", "content")

# Warnings of the parser are raised as errors for the client.
logging.getLogger("python_multipart").setLevel(logging.ERROR)


class Form:
    """A parsed form."""

    def __init__(self, content: Upload) -> None:
        self.fields: dict[str, str] = {}
        self.content = content
        self.has_content = False
        self.file_name: str | None = None
        self.media_type: str | None = None
        """The media type that the content part declares."""

    def close(self) -> None:
        self.content.close()


async def read_form(exchange: Exchange, content_bytes_max: int) -> Form:
    """Read a form from a request. The caller must close the form.

    Raises:
        Invalid: the form is incomplete, malformed or has no content.
        TooLarge: a part exceeds its limit.
    """
    parsing = _Parsing(_boundary(exchange), content_bytes_max, Upload(exchange.make_room))
    bytes_max = content_bytes_max + FORM_PARTS_MAX * (
        FORM_FIELD_BYTES_MAX + FORM_HEADERS_MAX * FORM_HEADER_BYTES_MAX
    )
    try:
        async for part in exchange.parts(bytes_max, Push):
            for content in parsing.feed(part):
                await parsing.form.content.take(content)
        parsing.check_whole()
    except BaseException:
        parsing.form.close()
        raise
    return parsing.form


def _boundary(exchange: Exchange) -> bytes:
    boundary = parse_options_header(exchange.header("content-type"))[1].get(b"boundary", b"")
    if not 0 < len(boundary) <= FORM_BOUNDARY_BYTES_MAX:
        raise Invalid(
            "invalid form boundary",
            f"Content-Type must have a boundary of 1 to {FORM_BOUNDARY_BYTES_MAX} characters",
        )
    return boundary


class _Parsing:
    """The callbacks of the parser, and the data that they collect."""

    def __init__(self, boundary: bytes, content_bytes_max: int, content: Upload) -> None:
        self.form = Form(content)
        self._content_bytes_max = content_bytes_max
        self._content_bytes = 0
        self._met: list[bytes] = []
        """Content that was parsed but not yet returned by `feed`."""
        self._parts = 0
        self._headers: dict[str, bytes] = {}
        self._header_name = self._header_value = b""
        self._part = ""
        self._value = b""
        self._is_whole = False
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._begin,
                "on_header_field": self._header_field,
                "on_header_value": self._header_value_part,
                "on_header_end": self._header_end,
                "on_headers_finished": self._headers_finished,
                "on_part_data": self._data,
                "on_part_end": self._end,
                "on_end": self._whole,
            },
            max_header_count=FORM_HEADERS_MAX,
            max_header_size=FORM_HEADER_BYTES_MAX,
        )

    def feed(self, part: bytes) -> list[bytes]:
        """Parse a chunk of the body and return the content found in that chunk."""
        try:
            self._parser.write(part)
        except FormParserError as error:
            raise Invalid(f"malformed form: {error}", "send multipart/form-data") from None
        met, self._met = self._met, []
        return met

    def check_whole(self) -> None:
        if not self._is_whole:
            raise Invalid("incomplete form", "end the form with its boundary and two hyphens")
        if not self.form.has_content:
            raise Invalid("file field required", f"name a part {' or '.join(CONTENT_PARTS)}")

    def _begin(self) -> None:
        self._parts += 1
        if self._parts > FORM_PARTS_MAX:
            raise TooLarge("too many parts in the form", f"the limit is {FORM_PARTS_MAX}")
        self._headers = {}
        self._value = b""

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._header_name += data[start:end]

    def _header_value_part(self, data: bytes, start: int, end: int) -> None:
        self._header_value += data[start:end]

    def _header_end(self) -> None:
        self._headers[self._header_name.decode("latin-1").lower()] = self._header_value
        self._header_name = self._header_value = b""

    def _headers_finished(self) -> None:
        kind, options = parse_options_header(self._headers.get("content-disposition", b""))
        if kind != b"form-data" or b"name" not in options:
            raise Invalid("a part of the form has no name", "give each part a name")
        self._part = _text(options[b"name"], "the name of a part")
        if self._part in self.form.fields:
            raise Invalid(f"duplicate part {self._part[:80]!r}", "send each part once")
        if self._part not in CONTENT_PARTS:
            return
        if self.form.has_content:
            raise Invalid("duplicate content part", f"send one of {', '.join(CONTENT_PARTS)}")
        self.form.has_content = True
        if b"filename" in options:
            # Some clients send a whole path as the file name. Only its last part is used.
            name = _text(options[b"filename"], "the file name").rpartition("/")[2]
            self.form.file_name = name or None
        media_type = self._headers.get("content-type", b"").decode("latin-1").strip()
        self.form.media_type = media_type or None

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._part in CONTENT_PARTS:
            self._content_bytes += end - start
            if self._content_bytes > self._content_bytes_max:
                raise content_too_large(self._content_bytes_max)
            self._met.append(data[start:end])
            return
        if len(self._value) + end - start > FORM_FIELD_BYTES_MAX:
            raise _over(f"field {self._part[:80]!r}", FORM_FIELD_BYTES_MAX)
        self._value += data[start:end]

    def _end(self) -> None:
        if self._part not in CONTENT_PARTS:
            self.form.fields[self._part] = _text(self._value, self._part[:80])

    def _whole(self) -> None:
        self._is_whole = True


def _text(raw: bytes, what: str) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise Invalid(f"{what} is not valid UTF-8", "encode the form as UTF-8") from None


def _over(what: str, bytes_max: int) -> TooLarge:
    return TooLarge(f"{what} is too long", f"the limit is {bytes_max:,}")


def content_too_large(bytes_max: int) -> TooLarge:
    """Return the error for content over the limit, with the text of seed 002."""
    limit = f"{bytes_max // MIB}MB" if bytes_max >= MIB else f"{bytes_max} bytes"
    return TooLarge(f"artifact exceeds {limit} limit", f"the limit is {bytes_max:,} bytes")
