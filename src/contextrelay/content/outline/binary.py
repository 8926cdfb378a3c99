"""Binaries: the format from the first bytes, the size, and the few facts in their headers.

Rule: nothing is decompressed. An archive is listed from its directory, within limits.
"""

from __future__ import annotations

import struct

from contextrelay.content.outline.layout import OutlineDraft, OutlinePiece, shorten
from contextrelay.content.source import Source

# Maximum number of archive entries listed.
OUTLINE_ENTRIES_MAX = 1_000

_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "PNG image"),
    (b"\xff\xd8\xff", "JPEG image"),
    (b"GIF8", "GIF image"),
    (b"BM", "BMP image"),
    (b"%PDF-", "PDF"),
    (b"PK\x03\x04", "zip archive"),
    (b"PK\x05\x06", "empty zip archive"),
    (b"\x1f\x8b", "gzip"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\0", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"7z\xbc\xaf\x27\x1c", "7-zip archive"),
    (b"Rar!", "rar archive"),
    (b"SQLite format 3\0", "SQLite database"),
    (b"\x7fELF", "ELF program"),
    (b"MZ", "Windows program"),
    (b"\xcf\xfa\xed\xfe", "Mach-O program"),
    (b"\0asm", "WebAssembly"),
    (b"RIFF", "RIFF (WAV, AVI or WebP)"),
    (b"OggS", "Ogg"),
    (b"ID3", "MP3"),
    (b"fLaC", "FLAC"),
    (b"PAR1", "Parquet"),
    (b"\xca\xfe\xba\xbe", "Java class"),
)


def draft_outline(source: Source) -> OutlineDraft | None:
    """Return the outline of a body that is not text, or None for text."""
    body = source.body
    name = next((name for magic, name in _MAGIC if body.startswith(magic)), "")
    if not name and body[4:8] == b"ftyp":
        name = "MP4 or HEIF"
    if not name and body[257:262] == b"ustar":
        name = "tar archive"
    title = f"binary, {name or 'unknown kind'}, {source.size_bytes} bytes"
    pieces = [OutlinePiece(0, (f"{title}, media type {shorten(source.media_type, 60)}",))]
    pieces.append(OutlinePiece(1, (f"first bytes: {body[:16].hex(' ')}",)))
    if detail := _detail(name, body):
        pieces.append(OutlinePiece(1, (detail,)))
    read_entries = {"zip archive": _zip_entries, "tar archive": _tar_entries}.get(name)
    entries, is_cut = read_entries(body) if read_entries else ([], False)
    if entries:
        pieces.append(OutlinePiece(1, (f"{'at least ' if is_cut else ''}{len(entries)} entries:",)))
        pieces += [OutlinePiece(2, (f"{shorten(path, 120)} {size}",)) for path, size in entries]
    return OutlineDraft("binary", pieces)  # No command can show a piece of it: it has to be pulled.


def _detail(name: str, body: bytes) -> str:
    """Return one fact from the header; "" if there is none."""
    match name:
        case "PNG image" if len(body) >= 24:
            return "{} x {} pixels".format(*struct.unpack(">II", body[16:24]))
        case "GIF image" if len(body) >= 10:
            return "{} x {} pixels".format(*struct.unpack("<HH", body[6:10]))
        case "JPEG image":
            at = 2
            for _ in range(100):
                if at + 9 > len(body) or body[at] != 0xFF:
                    break
                marker, length = struct.unpack(">BH", body[at + 1 : at + 4])
                if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
                    height, width = struct.unpack(">HH", body[at + 5 : at + 9])
                    return f"{width} x {height} pixels"
                at += 2 + length
        case "SQLite database" if len(body) >= 32:
            page_bytes, pages = struct.unpack(">H10xI", body[16:32])
            return f"{pages} pages of {65536 if page_bytes == 1 else page_bytes} bytes"
        case "PDF":
            return f"about {body.count(b'/Type /Page') + body.count(b'/Type/Page')} page objects"
        case "gzip" if len(body) >= 10 and body[3] & 8:
            return f"holds {shorten(body[10:210].partition(bytes(1))[0].decode('latin-1'))}"
        case _:
            pass
    return ""


def _zip_entries(body: bytes) -> tuple[list[tuple[str, int]], bool]:
    """Return the names and sizes in the directory of a zip archive, and whether there are more."""
    end = body.rfind(b"PK\x05\x06", max(0, len(body) - 66_000))
    if end < 0 or end + 22 > len(body):
        return [], False
    at = struct.unpack("<I", body[end + 16 : end + 20])[0]
    found: list[tuple[str, int]] = []
    while body[at : at + 4] == b"PK\x01\x02" and at + 46 <= len(body):
        if len(found) >= OUTLINE_ENTRIES_MAX:
            return found, True
        size, name_bytes, extra, comment = struct.unpack("<IHHH", body[at + 24 : at + 34])
        found.append((body[at + 46 : at + 46 + name_bytes].decode("utf-8", "replace"), size))
        at += 46 + name_bytes + extra + comment
    return found, False


def _tar_entries(body: bytes) -> tuple[list[tuple[str, int]], bool]:
    found: list[tuple[str, int]] = []
    at = 0
    while at + 512 <= len(body) and body[at : at + 1] != b"\0":
        if len(found) >= OUTLINE_ENTRIES_MAX:
            return found, True
        try:
            size = int(body[at + 124 : at + 136].strip(b"\0 ") or b"0", 8)
        except ValueError:
            break
        path = body[at : at + 100].partition(b"\0")[0].decode("utf-8", "replace")
        found.append((path, size))
        at += 512 + -(-max(0, size) // 512) * 512
    return found, False
