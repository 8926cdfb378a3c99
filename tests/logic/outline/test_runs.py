"""What commands printed, known by its content alone: runs of tests, traces of exceptions."""

from __future__ import annotations

from tests.logic.outline.drawing import outlined

PYTHON_TRACES = """\
begin
the first part was read
Traceback (most recent call last):
  File "/srv/app/lib.py", line 5, in run
    work(n)
  File "/srv/app/lib.py", line 2, in work
    return 1 / n
           ~~^~~
ZeroDivisionError: division by zero

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/srv/app/lib.py", line 11, in <module>
    run(0)
  File "/srv/app/lib.py", line 7, in run
    raise RuntimeError("the run failed") from e
RuntimeError: the run failed
"""
JAVA_TRACE = """\
The job of last night ended early. Here is what we saw:

Exception in thread "main" java.lang.IllegalStateException: cannot open ledger
\tat com.example.Ledger.open(Ledger.java:41)
\tat com.example.Main.main(Main.java:12)
Caused by: java.io.FileNotFoundException: /var/lib/ledger.db (No such file or directory)
\tat java.base/java.io.FileInputStream.open0(Native Method)
\tat com.example.Ledger.open(Ledger.java:39)
\t... 1 more
"""
NODE_TRACE = """\
begin
/srv/app/n.js:1
function work(n) { if (!n) throw new TypeError("n is nothing"); }
                           ^

TypeError: n is nothing
    at work (/srv/app/n.js:1:34)
    at run (/srv/app/n.js:3:18)
    at Module._compile (node:internal/modules/cjs/loader:1521:14)

Node.js v20.20.2
"""


def test_a_trace_is_known_without_a_name() -> None:
    """Promise L1: by the type of its exception and where it was raised."""
    places = {
        "exception 9: ZeroDivisionError: division by zero, at lib.py:2 in work": PYTHON_TRACES,
        "exception 18: RuntimeError: the run failed, at lib.py:7 in run": PYTHON_TRACES,
        "java.lang.IllegalStateException: cannot open ledger, at com.example.Ledger.open(Ledge"
        "r.java:41)": JAVA_TRACE,
        "java.io.FileNotFoundException: /var/lib/ledger.db": JAVA_TRACE,
        "exception 6: TypeError: n is nothing, at work (/srv/app/n.js:1:34)": NODE_TRACE,
    }
    for place, text in places.items():
        for name in ("", "notes.txt"):
            assert place in outlined(text, name).text
