"""Traces of exceptions in many languages: what was raised, why, and the last frame of own code."""

from __future__ import annotations

import time

import pytest

from tests.content.outline.drawing import outlined

TRACES = {
    "go": """\
panic: runtime error: nil pointer dereference
[signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0x48f30a]

goroutine 1 [running]:
encoding/json.(*Decoder).Decode(0x0, {0x4a2f60, 0xc000012345})
\t/usr/local/go/src/encoding/json/stream.go:49 +0x35
main.(*server).load(0xc0000b4000, {0x4c5e1a, 0x9})
\t/srv/server.go:87 +0x1d0
main.main()
\t/srv/main.go:25 +0x330

goroutine 6 [chan send]:
main.send(0x18346040, 0x80f5f10, 0x3)
\t/srv/send.go:36 +0x1a4
exit status 2
""",
    "rust": """\
thread 'main' (14758) panicked at src/main.rs:1:39:
index out of bounds: the len is 3 but the index is 7
stack backtrace:
   0: __rustc::rust_begin_unwind
             at /rustc/59807616e1fa/library/std/src/panicking.rs:689:5
   1: shop::work
             at ./src/main.rs:1:39
note: Some details are omitted, run with `RUST_BACKTRACE=full` for a verbose backtrace.
""",
    "ruby": """\
/srv/.gem/gems/cart-1.1.2/lib/cart.rb:46:in `each': undefined method `[]' for nil (NoMethodError)
\tfrom /srv/.gem/gems/cart-1.1.2/lib/cart.rb:36:in `each'
\tfrom /srv/clean.rb:4:in `<top (required)>'
""",
    "php": """\
PHP Fatal error:  Uncaught InvalidArgumentException: total is negative in /srv/Order.php:41
Stack trace:
#0 /srv/Cart.php(17): Shop\\Order->setTotal(-3)
#1 {main}

Next RuntimeException: cart is open in /srv/vendor/slim/App.php:21
Stack trace:
#0 /srv/index.php(5): Shop\\Cart->close()
#1 {main}
  thrown in /srv/Cart.php on line 21
""",
    "node": """\
node:internal/fs/promises:637
const handle = new FileHandle(await PromisePrototypeThen(
                              ^

Error: ENOENT: no file, open '/nope'
    at async open (node:internal/fs/promises:637:25)
    at async load (/srv/n2.js:1:46) {
  errno: -2,
  [cause]: TypeError [ERR_TYPE]: n is nothing
      at work (/srv/n.js:1:34)
}
""",
    "java": """\
Exception in thread "main" java.lang.IllegalStateException: cannot open ledger
\tat shop.Ledger.open(Ledger.java:41)
\tat shop.Main.main(Main.java:12)
Caused by: java.io.FileNotFoundException: /var/a.db (No file)
\tat java.base/java.io.FileInputStream.open0(Native Method)
\tat shop.Ledger.read(Ledger.java:39)
\t... 1 more
""",
    "c#": """\
Unhandled exception. InvalidOperationException: No order
 ---> FileNotFoundException: No '/srv/o.json'.
File name: '/srv/order.json'
   at System.IO.File.ReadAllText(String path)
   at Shop.Store.Read() in /srv/Store.cs:line 14
   --- End of inner exception stack trace ---
   at Shop.Store.Load() in /srv/Store.cs:line 18
""",
    "python": """\
  + Exception Group Traceback (most recent call last):
  |   File "/srv/g.py", line 9, in run
  |     raise ExceptionGroup("several failed", errs)
  | ExceptionGroup: several failed (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/srv/g.py", line 1, in a
    |     def a(): return json.loads("{")
    |              ^^^^^^^^^^^^^^^^^^^^^
    |   File "/usr/lib/python3.11/json/decoder.py", line 353, in raw_decode
    |     raise JSONDecodeError("Expecting value", s, err.value) from None
    | json.decoder.JSONDecodeError: Expecting value
    +---------------- 2 ----------------
    | Traceback (most recent call last):
    |   File "/srv/g.py", line 3, in b
    |     def b(): raise KeyError("k")
    | KeyError: 'k'
    +------------------------------------
""",
    "anyhow": """\
Error: could not load the order

Caused by:
    0: reading /srv/order.json
    1: No such file or directory (os error 2)

Stack backtrace:
   0: anyhow::error::<impl core::convert::From<E> for anyhow::Error>::from
             at /srv/.cargo/registry/src/anyhow-1.0.75/src/error.rs:565:25
   1: shop::load
             at ./src/main.rs:12:5
""",
    "dart": """\
Unhandled exception:
FormatException: Unexpected character (at character 1)
abc
^

#0      int.parse (dart:core-patch/integers_patch.dart:55:14)
#1      int.tryParse (dart:core-patch/integers_patch.dart:60:14)
#2      main (file:///srv/main.dart:3:7)
""",
    "perl": """\
no such thing at d.pl line 4.
\tmain::f(1, "x") called at d.pl line 7
""",
    "c": """\
==99==ERROR: AddressSanitizer: heap-use-after-free on 0x6070
READ of size 1 at 0x6070 thread T0
    #0 0x45917a in main /srv/free.c:5:13
""",
}
SAID = {
    "go": ["panic: runtime error: nil pointer dereference, at /srv/server.go:87"],
    "rust": ["panic: index out of bounds: the len is 3 but the index is 7, at src/main.rs:1:39"],
    "ruby": [
        "NoMethodError: undefined method `[]' for nil, at /srv/clean.rb:4:in `<top (required)>'"
    ],
    "php": [
        "InvalidArgumentException: total is negative, at /srv/Order.php:41",
        "RuntimeException: cart is open, at /srv/index.php(5): Shop\\Cart->close()",
    ],
    "node": [
        "Error: ENOENT: no file, open '/nope', at async load (/srv/n2.js:1:46)",
        "TypeError: n is nothing, at work (/srv/n.js:1:34)",
    ],
    "java": [
        "java.lang.IllegalStateException: cannot open ledger, at shop.Ledger.open(Ledger.java:41)",
        "java.io.FileNotFoundException: /var/a.db (No file), at shop.Ledger.read(Ledger.java:39)",
    ],
    "c#": [
        "InvalidOperationException: No order, at Shop.Store.Load() in /srv/Store.cs:line 18",
        "FileNotFoundException: No '/srv/o.json'., at Shop.Store.Read() in /srv/Store.cs:line 14",
    ],
    "python": [
        "ExceptionGroup: several failed (2 sub-exceptions), at g.py:9 in run",
        "json.decoder.JSONDecodeError: Expecting value, at g.py:1 in a",
        "KeyError: 'k', at g.py:3 in b",
    ],
    "anyhow": ["Error: could not load the order, at ./src/main.rs:12:5"],
    "dart": [
        "FormatException: Unexpected character (at character 1), at main (file:///srv/main.da"
    ],
    "perl": [": no such thing, at d.pl line 4"],
    "c": ["AddressSanitizer: heap-use-after-free on 0x6070, at 0x45917a in main /srv/free.c:5:13"],
}
QUIET = [f"2026-01-05 10:00:00 INFO api: request {n} was answered" for n in range(60)]


@pytest.mark.parametrize("language", TRACES)
def test_a_trace_is_shown_by_type_message_and_last_own_frame(language: str) -> None:
    """Promise L1: alone, in a log, and where each line has the time before it."""
    trace = TRACES[language]
    alone = outlined(trace, "").text
    within = outlined("\n".join([*QUIET, trace.rstrip("\n"), *QUIET]), "").text
    behind = [f"2026-01-05T10:00:00Z app[17]: {line}" for line in trace.split("\n")]
    prefixed = outlined("\n".join([*behind, *QUIET]), "a.log").text

    for said in SAID[language]:
        assert said in alone
        assert said in within
        assert said in prefixed or language in ("perl", "rails", "ruby")
    assert alone.count("\nexception ") == len(SAID[language])


def test_a_trace_that_quotes_code_is_no_code() -> None:
    """Promise L1: as where functions are written on one line."""
    shape = outlined(TRACES["python"].replace("  |", "").replace("  + ", ""), "")
    code = f'"""Reads traces.\n\n{TRACES["python"]}"""\nimport os\n\ndef read():\n    pass\n'

    assert shape.kind == "trace"
    assert outlined(TRACES["node"] * 3, "").kind == "trace"
    assert outlined(code, "").kind == "python"


def test_many_frames_are_counted_up_to_a_limit_which_is_said() -> None:
    """Promise L1."""
    text = outlined(TRACES["java"] * 12_000, "a.log").text

    assert "x7500" in text
    assert "on no traces were looked for" in text


@pytest.mark.parametrize(
    "line", ["panicked at '" + "', " * 90, "a.rb:1:in '" + "'): " * 90, "#0 (1): " * 60]
)
def test_hostile_lines_take_no_longer_than_others(line: str) -> None:
    """Promise L1: no pattern goes over a line more often than a few times."""
    start_s = time.process_time()
    outlined(f"{line}\n" * 5_000, "a.log")

    assert time.process_time() - start_s < 2
