"""What hostile clients send: requests as bytes, with HOST for the server's own name and port."""

from __future__ import annotations

from contextrelay.limits import HEADER_BYTES_IN_MAX

GET = b"GET /health HTTP/1.1\r\nHost: HOST\r\n"
PUSH = b"POST /push HTTP/1.1\r\nHost: HOST\r\n"
CLOSE = b"Connection: close\r\n\r\n"

# Bytes that are no request, or that two servers could read in two ways. What follows the first
# request would be a second one for who reads it otherwise: it must not be answered.
SMUGGLED = b"GET /health HTTP/1.1\r\nHost: HOST\r\n\r\n"
UNREADABLE = {
    "garbage": b"\x00\x01\x02\x03garbage\r\n\r\n",
    "endless garbage": b"\xff" * 200_000,
    "a TLS hello": bytes.fromhex("16030100f8010000f40303") + bytes(range(200)),
    "HTTP/0.9": b"GET /health\r\n\r\n",
    "HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/3.0": b"GET /health HTTP/3.0\r\nHost: HOST\r\n\r\n",
    "HTTP/1.1 misspelled": b"GET /health HTTQ/1.1\r\nHost: HOST\r\n\r\n",
    "no method": b" /health HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "a method in small letters": b"get /health HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "an unknown method": b"BREW /health HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "a space in the target": b"GET /health x HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "a NUL in the target": b"GET /hea\x00lth HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "a CR in the target": b"GET /hea\rlth HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "a proxy's CONNECT": b"CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: HOST\r\n\r\n" + SMUGGLED,
    "a space before the colon": GET + b"X-A : b\r\n\r\n" + SMUGGLED,
    "a header without a colon": GET + b"X-A\r\n\r\n" + SMUGGLED,
    "a header without a name": GET + b": b\r\n\r\n" + SMUGGLED,
    "a NUL in a header": GET + b"X-A: a\x00b\r\n\r\n" + SMUGGLED,
    "a bare CR in a header": GET + b"X-A: a\rContent-Length: 5\r\n\r\n" + SMUGGLED,
    "a space in a header's name": GET + b"X A: b\r\n\r\n" + SMUGGLED,
    "a folded header": GET + b"X-A: a\r\n b\r\n\r\n" + SMUGGLED,
    "a folded first header": b"GET /health HTTP/1.1\r\n Host: HOST\r\n\r\n" + SMUGGLED,
    "two lengths": PUSH + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello" + SMUGGLED,
    "two lengths in one": PUSH + b"Content-Length: 5, 6\r\n\r\nhello" + SMUGGLED,
    "a negative length": PUSH + b"Content-Length: -5\r\n\r\nhello" + SMUGGLED,
    "a length with a sign": PUSH + b"Content-Length: +5\r\n\r\nhello" + SMUGGLED,
    "a length in hex": PUSH + b"Content-Length: 0x5\r\n\r\nhello" + SMUGGLED,
    "a length with an underscore": PUSH + b"Content-Length: 1_0\r\n\r\nhello" + SMUGGLED,
    "a length of letters": PUSH + b"Content-Length: five\r\n\r\nhello" + SMUGGLED,
    "an empty length": PUSH + b"Content-Length:\r\n\r\nhello" + SMUGGLED,
    "a length past 64 bits": PUSH + b"Content-Length: 99999999999999999999999\r\n\r\n" + SMUGGLED,
    "a length and chunks": (
        PUSH + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED
    ),
    "chunks and a length": (
        PUSH + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" + SMUGGLED
    ),
    "another coding": PUSH + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "a coding after chunked": PUSH
    + b"Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n"
    + SMUGGLED,
    "identity": PUSH + b"Transfer-Encoding: identity\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "chunked, twice": (
        PUSH
        + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n"
        + SMUGGLED
    ),
    "a coding with a tab": PUSH + b"Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "a chunk that is no number": PUSH + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n" + SMUGGLED,
    "a negative chunk": PUSH + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n" + SMUGGLED,
    "a chunk past 64 bits": (
        PUSH + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n" + SMUGGLED
    ),
    "a chunk without its end": (
        PUSH + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhelloX\r\n0\r\n\r\n" + SMUGGLED
    ),
    "a chunk with a bare LF": (
        PUSH + b"Transfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n" + SMUGGLED
    ),
    "bare LFs": b"GET /health HTTP/1.1\nHost: HOST\n\n" + SMUGGLED,
    "a bare LF in a header": GET + b"X-A: a\nContent-Length: 5\r\n\r\n" + SMUGGLED,
}


DEEP = 100_000
LONG = b"a" * 60_000
WS = b"GET /ws/a HTTP/1.1\r\nHost: HOST\r\nUpgrade: websocket\r\nConnection: upgrade\r\n"
WS_KEY = b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
WS_VERSION = b"Sec-WebSocket-Version: 13\r\n"

NO_HANDSHAKE: dict[str, tuple[bytes, set[int]]] = {
    "a handshake without a key": (WS + WS_VERSION + b"\r\n", {400}),
    "a handshake with a bad key": (WS + WS_VERSION + b"Sec-WebSocket-Key: !\r\n\r\n", {400}),
    "a handshake with two keys": (WS + WS_VERSION + WS_KEY + WS_KEY + b"\r\n", {400}),
    "a handshake without a version": (WS + WS_KEY + b"\r\n", {400, 426}),
    "a handshake of another version": (
        WS + WS_KEY + b"Sec-WebSocket-Version: 7\r\n\r\n",
        {400, 426},
    ),
    "a handshake with many headers": (
        WS + WS_KEY + WS_VERSION + b"".join(b"x%d: 1\r\n" % n for n in range(150)) + b"\r\n",
        {400},
    ),
    "a handshake with a long header": (
        WS + WS_KEY + WS_VERSION + b"x: " + LONG + b"\r\n\r\n",
        {400},
    ),
    "a handshake with odd bytes": (
        WS + WS_KEY + WS_VERSION + b"x: \xff\r\nOrigin: \xff\r\n\r\n",
        {403},
    ),
    "a handshake in HTTP/1.0": (
        WS.replace(b"1.1", b"1.0") + WS_KEY + WS_VERSION + b"\r\n",
        {400, 426},
    ),
    "a handshake from another page": (
        WS + WS_KEY + WS_VERSION + b"Origin: http://evil.example\r\n\r\n",
        {403},
    ),
}

# Requests that can be read, and that ask for what is not to be had.
REFUSED: dict[str, tuple[bytes, set[int]]] = {
    **NO_HANDSHAKE,
    "no Host": (b"GET /health HTTP/1.1\r\n" + CLOSE, {421}),
    "no Host in HTTP/1.0": (b"GET /health HTTP/1.0\r\n\r\n", {421}),
    "two Hosts": (GET + b"Host: HOST\r\n" + CLOSE, {400}),
    "two Hosts, one evil": (GET + b"Host: evil.example\r\n" + CLOSE, {400}),
    "an empty Host": (b"GET /health HTTP/1.1\r\nHost:\r\n" + CLOSE, {421}),
    "an evil Host": (b"GET /health HTTP/1.1\r\nHost: evil.example\r\n" + CLOSE, {421}),
    "a Host that begins well": (
        b"GET /health HTTP/1.1\r\nHost: 127.0.0.1:evil.example\r\n" + CLOSE,
        {421},
    ),
    "a Host with a name": (b"GET /health HTTP/1.1\r\nHost: a@HOST\r\n" + CLOSE, {421}),
    "no Origin to speak of": (GET + b"Origin: null\r\n" + CLOSE, {403}),
    "another Origin": (GET + b"Origin: http://evil.example\r\n" + CLOSE, {403}),
    "an Origin that begins well": (GET + b"Origin: http://HOST.evil.example\r\n" + CLOSE, {403}),
    "two Origins": (GET + b"Origin: http://evil.example\r\nOrigin: http://HOST\r\n" + CLOSE, {400}),
    "a target elsewhere": (b"GET http://evil.example/health HTTP/1.1\r\nHost: HOST\r\n\r\n", {400}),
    "a target behind a name": (
        b"GET http://HOST@evil.example/health HTTP/1.1\r\nHost: HOST\r\n\r\n",
        {400},
    ),
    "a target with another scheme": (
        b"GET file:///etc/passwd HTTP/1.1\r\nHost: HOST\r\n\r\n",
        {400},
    ),
    "all of the server": (b"OPTIONS * HTTP/1.1\r\nHost: HOST\r\n\r\n", {400}),
    "dots": (b"GET /../../../etc/passwd HTTP/1.1\r\nHost: HOST\r\n" + CLOSE, {404}),
    "dots in percent": (b"GET /%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\nHost: HOST\r\n" + CLOSE, {404}),
    "dots behind a ref": (b"GET /pull/../../config.json HTTP/1.1\r\nHost: HOST\r\n" + CLOSE, {404}),
    "dots for a ref": (
        b"GET /pull/..%2f..%2fconfig.json HTTP/1.1\r\nHost: HOST\r\n" + CLOSE,
        {404},
    ),
    "dots in a form": (
        b"GET /v1/artifacts/..%5c..%5cx HTTP/1.1\r\nHost: HOST\r\n" + CLOSE,
        {400, 404},
    ),
    "two slashes": (b"GET //health HTTP/1.1\r\nHost: HOST\r\n" + CLOSE, {404}),
    "a slash at the end": (b"GET /health/ HTTP/1.1\r\nHost: HOST\r\n" + CLOSE, {404}),
    "a NUL": (b"GET /pull/%00 HTTP/1.1\r\nHost: HOST\r\n" + CLOSE, {404}),
    "a NUL in a channel": (
        b"GET /v1/channels/a%00b HTTP/1.1\r\nHost: HOST\r\n" + CLOSE,
        {400, 404},
    ),
    "a line in a channel": (
        b"GET /v1/channels/a%0d%0ab/events HTTP/1.1\r\nHost: HOST\r\n" + CLOSE,
        {400, 404},
    ),
    "a path that is no UTF-8": (b"GET /pull/%ff%fe HTTP/1.1\r\nHost: HOST\r\n" + CLOSE, {400, 404}),
    "a channel that is no UTF-8": (
        b"GET /v1/channels/%ff HTTP/1.1\r\nHost: HOST\r\n" + CLOSE,
        {400},
    ),
    "bare bytes in a path": (b"GET /pull/\xff\xfe HTTP/1.1\r\nHost: HOST\r\n" + CLOSE, {400, 404}),
    "half a percent": (b"GET /pull/%2 HTTP/1.1\r\nHost: HOST\r\n" + CLOSE, {404}),
    "a long path": (b"GET /pull/" + LONG + b" HTTP/1.1\r\nHost: HOST\r\n" + CLOSE, {404}),
    "a long channel": (b"GET /v1/channels/" + LONG + b" HTTP/1.1\r\nHost: HOST\r\n" + CLOSE, {400}),
    "many segments": (b"GET " + b"/a" * 30_000 + b" HTTP/1.1\r\nHost: HOST\r\n" + CLOSE, {404}),
    "a query that is no UTF-8": (
        b"GET /v1/artifacts?prefix=%ff HTTP/1.1\r\nHost: HOST\r\n" + CLOSE,
        {400},
    ),
    "a field twice": (
        b"GET /v1/artifacts?limit=1&limit=2 HTTP/1.1\r\nHost: HOST\r\n" + CLOSE,
        {400},
    ),
    "many fields": (
        b"GET /v1/artifacts?"
        + b"&".join(b"f%d=1" % n for n in range(5_000))
        + b" HTTP/1.1\r\nHost: HOST\r\n"
        + CLOSE,
        {400},
    ),
    "an endless number": (
        b"GET /v1/artifacts?limit=" + b"9" * 50_000 + b" HTTP/1.1\r\nHost: HOST\r\n" + CLOSE,
        {400},
    ),
    "a wait of nan": (b"GET /v1/channels/a?wait=nan HTTP/1.1\r\nHost: HOST\r\n" + CLOSE, {400}),
    "a negative seq": (b"GET /v1/channels/a?after=-1 HTTP/1.1\r\nHost: HOST\r\n" + CLOSE, {400}),
    "a Last-Event-ID that is none": (
        b"GET /v1/channels/a/events HTTP/1.1\r\nHost: HOST\r\nLast-Event-ID: x\xff\r\n" + CLOSE,
        {400},
    ),
    "a target that is too long": (
        b"GET /" + b"a" * (HEADER_BYTES_IN_MAX + 1) + b" HTTP/1.1\r\nHost: HOST\r\n" + CLOSE,
        {431},
    ),
    "headers that are too long": (
        GET + b"X-A: " + b"a" * HEADER_BYTES_IN_MAX + b"\r\n" + CLOSE,
        {431},
    ),
    "a header without an end": (GET + b"X-A: " + b"a" * 3_000_000, {431}),
    "a header's name without an end": (GET + b"a" * 3_000_000, {431}),
    "thousands of headers": (GET + b"".join(b"x%d:\r\n" % n for n in range(5_000)) + CLOSE, {431}),
    "an unknown path": (
        b"POST /nowhere HTTP/1.1\r\nHost: HOST\r\nContent-Length: 5\r\n" + CLOSE + b"hello",
        {404},
    ),
    "another method": (b"DELETE /push HTTP/1.1\r\nHost: HOST\r\n" + CLOSE, {405}),
    "TRACE": (b"TRACE /health HTTP/1.1\r\nHost: HOST\r\nX-Secret: a\r\n" + CLOSE, {405}),
    "an announced gigabyte": (PUSH + b"Content-Length: 1073741824\r\n\r\n", {413}),
    "an announced exabyte": (PUSH + b"Content-Length: 1152921504606846976\r\n\r\n", {413}),
    "an announced gigabyte, if it may": (
        PUSH + b"Expect: 100-continue\r\nContent-Length: 1073741824\r\n\r\n",
        {413},
    ),
    "an announced gigabyte of JSON": (
        PUSH + b"Content-Type: application/json\r\nContent-Length: 1073741824\r\n\r\n",
        {413},
    ),
    "chunks past the limit": (
        PUSH
        + b"Transfer-Encoding: chunked\r\n\r\n"
        + (b"10000\r\n" + b"a" * 65_536 + b"\r\n") * 20
        + b"0\r\n\r\n",
        {413},
    ),
    "an upgrade of a push": (
        PUSH
        + b"Upgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Version: 13\r\n"
        + b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nContent-Length: 0\r\n\r\n"
        + SMUGGLED,
        {400},
    ),
    "an upgrade elsewhere": (
        GET
        + b"Upgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Version: 13\r\n"
        + b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
        {404},
    ),
}
JSON_PATHS = (b"/push", b"/threads", b"/v1/threads", b"/v1/channels/a", b"/v1/artifacts/many")
BAD_JSON = {
    "nothing": b"",
    "half": b'{"data": "a',
    "another encoding": '{"data": "a"}'.encode("utf-16"),
    "bytes": b'{"data": "\xff\xfe"}',
    "half a surrogate": b'{"data": "\\ud800"}',
    "a list": b"[]",
    "deep lists": b'{"data": ' + b"[" * DEEP + b"]" * DEEP + b"}",
    "deep objects": b'{"data":' * DEEP + b"1" + b"}" * DEEP,
    "deep lists beside": b'{"x": ' + b"[" * DEEP + b"]" * DEEP + b', "data": 1}',
    "NaN": b'{"data": NaN}',
    "an infinity": b'{"data": 1e999}',
    "a long number": b'{"data": ' + b"9" * 1_000_000 + b"}",
    "a long fraction": b'{"data": 0.' + b"9" * 1_000_000 + b"}",
    "a comment": b'{"data": /* */ "a"}',
    "a NUL": b'{"data": "a"}\x00',
    "two of them": b'{"data": "a"}{"data": "b"}',
    "gzip": bytes.fromhex("1f8b0800000000000003ab562a492c51b25252aa05004b0e3c2a0c000000"),
}

FORM = b"Content-Type: multipart/form-data; boundary="
PART = b'--b\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n'
BAD_FORMS = {
    "no boundary": (b"", PART % (b"file", b"a") + b"--b--\r\n"),
    "an endless boundary": (b"b" * 5_000, PART % (b"file", b"a") + b"--b--\r\n"),
    "no end": (b"b", PART % (b"file", b"a")),
    "no content": (b"b", PART % (b"name", b"a") + b"--b--\r\n"),
    "thousands of parts": (b"b", b"".join(PART % (b"f%d" % n, b"") for n in range(5_000))),
    "a long field": (b"b", PART % (b"name", b"a" * 300_000) + b"--b--\r\n"),
    "a long header": (b"b", b"--b\r\nContent-Disposition: " + b"a" * 300_000),
    "thousands of headers": (b"b", b"--b\r\n" + b"x: 1\r\n" * 50_000),
    "a form in a form": (
        b"b",
        b"--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c\r\n\r\na\r\n--c--\r\n--b--",
    ),
    "bytes for a name": (b"b", PART % (b"\xff\xfe", b"a") + b"--b--\r\n"),
    "bytes for a field": (b"b", PART % (b"name", b"\xff") + PART % (b"file", b"a") + b"--b--\r\n"),
    "only dashes": (b"b", b"-" * 500_000),
    "only boundaries": (b"b", b"--b\r\n" * 50_000),
}


def frame(opcode: int, body: bytes, is_last: bool = True, mask: bytes = bytes(4)) -> bytes:
    """A client's frame; a mask of zeros leaves the body as it is."""
    size = len(body)
    start = bytes([opcode | (0x80 if is_last else 0)])
    if size < 126:
        start += bytes([size | (0x80 if mask else 0)])
    else:
        start += bytes([127 | (0x80 if mask else 0)]) + size.to_bytes(8)
    return start + mask + body


TEXT, BINARY, CONT, CLOSING, PING = 1, 2, 0, 8, 9
BAD_FRAMES = {
    "one that is too large": (frame(TEXT, b"a" * 100_000), 1009),
    "one that says it is huge": (b"\x81\xff" + (1 << 62).to_bytes(8) + bytes(4), 1009),
    "one past 63 bits": (b"\x81\xff" + b"\xff" * 8 + bytes(4), 1009),
    "parts without an end": (
        frame(TEXT, b"a", False) + frame(CONT, b"a" * 9_000, False) * 20,
        1009,
    ),
    "one without a mask": (frame(TEXT, b"a", mask=b""), 1002),
    "one with bits that mean nothing": (b"\xf1\x80" + bytes(4), 1002),
    "an unknown kind": (frame(5, b""), 1002),
    "a part of nothing": (frame(CONT, b"a"), 1002),
    "a text within a text": (frame(TEXT, b"a", False) + frame(TEXT, b"b"), 1002),
    "a long ping": (frame(PING, b"a" * 200), 1002),
    "half a ping": (frame(PING, b"a", False), 1002),
    "a close with half a code": (frame(CLOSING, b"\x03"), 1002),
    "a close with no code there is": (frame(CLOSING, (77).to_bytes(2)), 1002),
    "a close that is no UTF-8": (frame(CLOSING, (1000).to_bytes(2) + b"\xff"), 1007),
}
