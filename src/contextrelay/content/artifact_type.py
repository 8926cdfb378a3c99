"""Types: the type of an artifact, from its media type, its name or its first bytes.

Rule: the bytes decide in the end. A body that is not UTF-8 never gets a text type, a UTF-8 body is
never an image or a PDF, and ambiguous text is plain text.
"""

from __future__ import annotations

import re

from contextrelay.limits import MEDIA_TYPE_CHARS_MAX
from contextrelay.model.artifact import ArtifactType

# Type, media type, extensions. For a media type or a type, the first row decides the extension.
_TABLE: tuple[tuple[ArtifactType, str, str], ...] = (
    ("markdown", "text/markdown", "md markdown mdown mkd"),
    ("json", "application/json", "json map webmanifest"),
    ("json", "application/x-ndjson", "jsonl ndjson"),
    ("json", "application/geo+json", "geojson"),
    ("html", "text/html", "html htm"),
    ("html", "application/xhtml+xml", "xhtml"),
    ("text", "text/plain", "txt text rst adoc org tex ini cfg conf env properties"),
    ("text", "application/xml", "xml xsd xsl rss atom"),
    ("text", "application/yaml", "yaml yml"),
    ("text", "application/toml", "toml"),
    ("text", "image/svg+xml", "svg"),
    ("binary", "application/octet-stream", "bin dat exe dll so dylib o a class pyc"),
    ("binary", "application/zip", "zip jar whl"),
    ("binary", "application/gzip", "gz tgz"),
    ("binary", "application/x-tar", "tar"),
    ("binary", "application/vnd.sqlite3", "sqlite sqlite3 db"),
    ("binary", "application/wasm", "wasm"),
    ("binary", "audio/mpeg", "mp3"),
    ("binary", "audio/wav", "wav"),
    ("binary", "video/mp4", "mp4"),
    ("tool_output", "text/plain", ""),
    ("email", "message/rfc822", "eml"),
    ("code", "text/x-python", "py pyi pyw"),
    ("code", "text/javascript", "js mjs cjs jsx"),
    ("code", "text/x-typescript", "ts tsx mts cts"),
    ("code", "text/x-shellscript", "sh bash zsh fish"),
    ("code", "text/x-c", "c h"),
    ("code", "text/x-c++", "cpp cc cxx hpp hh"),
    ("code", "text/x-java", "java"),
    ("code", "text/x-kotlin", "kt kts"),
    ("code", "text/x-csharp", "cs"),
    ("code", "text/x-go", "go"),
    ("code", "text/x-rust", "rs"),
    ("code", "text/x-ruby", "rb"),
    ("code", "text/x-php", "php"),
    ("code", "text/x-swift", "swift"),
    ("code", "text/x-scala", "scala"),
    ("code", "text/x-lua", "lua"),
    ("code", "text/x-perl", "pl pm"),
    ("code", "text/x-r", "r"),
    ("code", "text/css", "css scss less"),
    ("code", "application/sql", "sql"),
    ("code", "text/x-proto", "proto"),
    ("csv", "text/csv", "csv"),
    ("csv", "text/tab-separated-values", "tsv tab"),
    ("log", "text/x-log", "log"),
    ("diff", "text/x-diff", "diff patch"),
    ("image", "image/png", "png"),
    ("image", "image/jpeg", "jpg jpeg"),
    ("image", "image/gif", "gif"),
    ("image", "image/webp", "webp"),
    ("image", "image/bmp", "bmp"),
    ("image", "image/tiff", "tif tiff"),
    ("image", "image/avif", "avif"),
    ("image", "image/x-icon", "ico"),
    ("pdf", "application/pdf", "pdf"),
)
_BY_EXTENSION: dict[str, tuple[ArtifactType, str]] = {
    extension: (kind, media_type)
    for kind, media_type, extensions in reversed(_TABLE)
    for extension in extensions.split()
}
_BY_MEDIA_TYPE: dict[str, ArtifactType] = {
    **{media_type: kind for kind, media_type, extensions in reversed(_TABLE) if extensions},
    "text/x-markdown": "markdown",
    "text/json": "json",
    "application/jsonl": "json",
    "application/javascript": "code",
    "application/x-sh": "code",
    "application/x-python": "code",
    "text/x-python-script": "code",
    "text/x-patch": "diff",
    "text/xml": "text",
    "application/x-yaml": "text",
    "text/yaml": "text",
}
MEDIA_TYPE_OF = {kind: media_type for kind, media_type, _ in reversed(_TABLE)}
_EXTENSION_OF = {
    key: f".{extensions.split()[0]}"
    for kind, media_type, extensions in reversed(_TABLE)
    if extensions
    for key in ((kind, media_type), kind)
}
# Media types sent by clients that do not know the type.
_SAYS_NOTHING = frozenset(
    {"application/octet-stream", "binary/octet-stream", "application/unknown"}
)
NOT_TEXT: frozenset[ArtifactType] = frozenset({"binary", "image", "pdf"})

_TOKEN = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"
_MEDIA_TYPE = re.compile(
    rf'{_TOKEN}/{_TOKEN}(?:[ \t]*;[ \t]*{_TOKEN}=(?:{_TOKEN}|"[\x20\x21\x23-\x5b\x5d-\x7e]*"))*'
)


def artifact_type(
    name: str | None, media_type: str | None, head: bytes, is_text: bool
) -> tuple[ArtifactType, str]:
    """Return the type and media type of a body: from the given media type, else from the name, else
    from the content.

    A given media type is kept unchanged, even if the bytes do not match its type.
    `tool_output` is never detected here, because only the caller knows it.
    """
    base = _known_base(media_type)
    if media_type is not None and base:
        return _fitting(_type_of_media(base, is_text), head, is_text), media_type
    by_name = _by_name(name)
    if by_name and (by_name[0] not in NOT_TEXT) == is_text:
        return by_name
    return _by_content(head, is_text)


def declared_type(
    kind: ArtifactType | None, name: str | None, media_type: str | None
) -> tuple[ArtifactType, str]:
    """Return the type and media type of unreadable content: as declared, else from the name."""
    base = _known_base(media_type)
    if media_type is not None and base:
        return kind or _type_of_media(base, base.startswith("text/")), media_type
    by_name = _by_name(name) or (kind or "binary", MEDIA_TYPE_OF[kind or "binary"])
    return kind or by_name[0], by_name[1]


def _by_name(name: str | None) -> tuple[ArtifactType, str] | None:
    return _BY_EXTENSION.get(name.rpartition(".")[2].lower()) if name and "." in name else None


def _by_content(head: bytes, is_text: bool) -> tuple[ArtifactType, str]:
    # Imported lazily: its patterns are slow to compile, and most content has a name or a type.
    from contextrelay.content.sniff import sniff_binary, sniff_text

    return sniff_text(head) if is_text else sniff_binary(head)


def _known_base(media_type: str | None) -> str:
    """Return a media type without its parameters; "" if it is missing, malformed or
    octet-stream.
    """
    base = _base(media_type) if media_type is not None and is_media_type(media_type) else ""
    return "" if base in _SAYS_NOTHING else base


def _base(media_type: str) -> str:
    return media_type.partition(";")[0].strip().lower()


def _type_of_media(base: str, is_text: bool) -> ArtifactType:
    """Return the type for a media type."""
    if base in _BY_MEDIA_TYPE:
        return _BY_MEDIA_TYPE[base]
    if base.endswith("+json"):
        return "json"
    if base.startswith("image/"):
        return "image"
    return "text" if is_text else "binary"


def _fitting(kind: ArtifactType, head: bytes, is_text: bool) -> ArtifactType:
    """Return the type if it matches the bytes, otherwise the type of the bytes."""
    if (kind not in NOT_TEXT) == is_text:
        return kind
    return "text" if is_text else _by_content(head, is_text)[0]


def is_media_type(text: str) -> bool:
    """Return True if the text is a media type (RFC 9110) within our length limit."""
    return len(text) <= MEDIA_TYPE_CHARS_MAX and _MEDIA_TYPE.fullmatch(text) is not None


def extension(kind: ArtifactType, media_type: str) -> str:
    """Return the file extension for content of a type and media type, including the dot."""
    if kind == "tool_output":
        return ".txt"
    return _EXTENSION_OF.get((kind, _base(media_type))) or _EXTENSION_OF[kind]
