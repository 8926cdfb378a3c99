"""C, JavaScript and TypeScript by their statements: what is defined, where, and nothing else."""

from __future__ import annotations

import re
import time

import pytest

from contextrelay.content.outline import GRAMMAR_TYPES
from contextrelay.content.outline.code import c, grammars
from tests.content.outline.drawing import outlined
from tests.content.slicing.sources import Counted
from tests.rigs import length

SIZE = length(thin=1 << 16, long=1 << 20, full=5_000_000)
S_MAX = length(thin=5, long=20, full=40)
"""Of what takes a second or two on an idle machine."""

JAVASCRIPT = """/* class Fake {} function no() {} */
const shown = `function inside() { ${a ? `class X {` : "}"} }`;
class Cart extends Basket {
  static #count = 0;
  get size() { return 1; }
  set size(value) {}
  *items() { yield 1; }
  async load(options = { deep: true }) { await 1; }
  onChange = (event) => { this.x = event; };
  static make = async function () {};
  static { start(); }
  constructor() { super(); if (a / b) { run(); } }
}
export default function main(a, b) {}
export const total = async (cart) => cart.sum,
  rounded = number => number;
module.exports.open = function () {};
Cart.prototype.close = function (day) { return /[{]/.test(day); };
module.exports = { first() {}, second: function () {}, third: (a) => a, fourth: 4 };
if (x) { function nested() {} }
const LIMITS = {
  most: 1,
};
describe('a cart', () => { it('opens', () => {}); });
function outer() { function inner() {} }
(() => {
  function wrapped() {}
})();
"""
TYPESCRIPT = """import type { Money } from './money';
export declare function over(a: string): void;
export interface Thing<T> extends Base, Other<T> { a(): void }
export type Fn =
  | ((a: { b: string }) => { c: number })
  | null;
const enum Color { Red }
declare module 'shop' { export function opened(): void }
namespace Shop.Door { export class Bell { ring(): void {} } }
@Injectable({ a: 1 })
export abstract class Service<T extends { a: 1 } = {}> implements X, Y {
  @Get('x') find(@Param() id: string): Promise<T> { return run(); }
  private static async *walk<T>(a: T): AsyncGenerator<T> {}
  abstract run(): void;
  handler: (a: string) => void = (a) => {};
  over(a: string): void;
  over(a: any) {
  }
}
export const make = <T,>(a: T): { b: T } => ({ b: a });
function typed(a: T): { x: number } {
  return 1;
}
"""
C = """#include <stdio.h>
#define TWICE(a) \\
  { a; a; }
int one(int a) { return a; }
static int two(void) { if (1) { return '{'; } return 0; }
int old_style(a, b)
  int a;
  char *b;
{
  return a;
}
static const struct foo *
split_name(struct foo *a,
           int b)
{
}
struct point { int x, y; };
enum color { RED, GREEN } paint;
union both { int a; };
typedef struct node { struct node *next; } node_t, *node_p;
typedef int (*callback)(int, void *);
typedef void (visitor)(struct node *);
typedef unsigned long number_t;
typedef enum { A, B } __attribute__((packed)) kind_t;
static int (*handler_of(int which))(int) { return 0; }
#ifdef X
int branch(int a) {
#else
int branch(long a) {
#endif
  return a;
}
extern "C" {
void inside_c(void) {}
}
static const int table[] = { 1, 2, 3 };
int announced(int a);
PyMODINIT_FUNC PyInit_x(void) { }
__attribute__((noreturn)) void die(const char *fmt, ...) { exit(1); }
char *text = "int fake(int a) {";
/* int comment(int a) { } */
main() { }
"""
PARTS = (
    *("/*", "{", "}", "({[", "`${", "'", "=/[", "class A{a(){", "(function(){", "a\n", ";"),
    *("int f(a) int a;", "#if\n{\n#else\n", "{{\n}", "struct a {", "x y(z) w; ", "const a = ("),
)
FILES = {"a.js": JAVASCRIPT, "a.ts": TYPESCRIPT, "a.c": C}
MEDIA_TYPES = {"a.js": "text/javascript", "a.ts": "text/x-typescript", "a.c": "text/x-c"}


DEFINED = {
    "a.js": """Cart size items load onChange make constructor main total rounded open close first
        second third LIMITS outer wrapped""",
    "a.ts": "over Thing Fn Color opened Bell ring Service find walk run handler make typed",
    "a.c": """TWICE one two old_style split_name point color both node node_t node_p callback
        visitor number_t kind_t handler_of branch inside_c table announced PyInit_x die main""",
}


@pytest.mark.parametrize(("name", "defined"), DEFINED.items())
def test_all_that_is_defined_is_shown_and_nothing_else(name: str, defined: str) -> None:
    """Promise L1: not what stands in comments, strings, templates or the bodies of functions."""
    if name == "a.c":
        all_found = c.read(FILES[name])[0].found
    else:
        all_found = grammars.read(MEDIA_TYPES[name], name, FILES[name], "") or []
    found = {each.name.rpartition(".")[2] for each in all_found if each.kind != "test"}

    assert found - {"exports", "Door", "a"} == set(defined.split())
    text = outlined(FILES[name], name).text
    assert all(each in text for each in defined.split())


@pytest.mark.parametrize(
    ("name", "symbol", "lines"),
    [
        ("a.js", "Cart", (3, 13)),
        ("a.js", "onChange", (9, 9)),
        ("a.js", "LIMITS", (21, 23)),
        ("a.ts", "Fn", (4, 6)),
        ("a.ts", "Service.over", (17, 18)),
        ("a.c", "TWICE", (2, 3)),
        ("a.c", "split_name", (12, 16)),
        ("a.c", "branch", (27, 32)),
        ("a.c", "table", (36, 36)),
    ],
)
def test_a_symbol_has_all_its_lines(name: str, symbol: str, lines: tuple[int, int]) -> None:
    """Promise L2."""
    body = Counted(FILES[name].encode(), "code", MEDIA_TYPES[name], name)

    piece = body.take("symbol", symbol)

    first, last = lines
    assert piece.text == "".join(FILES[name].splitlines(keepends=True)[first - 1 : last])


@pytest.mark.parametrize("part", PARTS)
def test_code_that_never_ends_what_it_begins_is_read_in_one_pass(part: str) -> None:
    """Promise L1: in time that grows with the text."""
    text = part * (SIZE // len(part))
    started = time.process_time()

    code, _ = c.read(text)

    assert len(code.found) <= 20_000
    assert time.process_time() - started < S_MAX


@pytest.mark.parametrize(
    "wrapped",
    [
        "(function (root, factory) {\n  factory(root);\n})(this, function (exports) {\n%s});\n",
        "define(['a', 'b'], function (a, b) {\n%s});\n",
        "!function () {\n%s}();\n",
        "var shops = (function (window) {\n%s})(window);\n",
        "module.exports = function (a) {\n%s  return [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];\n};\n",
        (
            "(function (a, b) {\n  b();\n})(this, function () {\nreturn (function (modules) {\n"
            "  modules[0]();\n})({\n'./a.js':\n/**/ (function (module, a) {\n%s})\n});\n});\n"
        ),
        (
            "(() => {\nvar modules = ({\n'./a.js': ((module, exports) => {\n  module;\n}),\n"
            "'./b.js'(module) {\n%s}\n});\n})();\n"
        ),
        "(()=>{var e={12:(e,t)=>{t.a=1},13:function(e,t){\n%s}};})();\n",
        "!function(e){e[0]}([function(e,t){t.a=1},function(e,t){\n%s}]);\n",
        "const text = `${`${a}`.replace(/[`\"]/g, '')}`;\n%s",
    ],
)
def test_what_is_wrapped_around_a_file_hides_nothing_in_it(wrapped: str) -> None:
    """Promise L1."""
    body = (
        wrapped
        % "  function open(day) {\n    return day;\n  }\n  class Shop {\n    close() {}\n  }\n"
    )

    text = outlined(body, "a.js").text

    assert "function open(day)" in text
    assert "class Shop:" in text
    assert "close()" in text


def test_an_object_that_is_exported_is_shown_with_its_functions() -> None:
    """Promise L1."""
    body = "export default {\n  name: 'cart',\n  data() {\n    return {};\n  },\n};\n"

    assert "object default:1, data():3" in outlined(body, "cart.js").text


def test_modules_in_one_file_have_their_names() -> None:
    """Promise L1."""
    body = "(function (m) {})({\n'./a.js': (function (m) {\n  function open() {}\n}),\n"
    body += "'./b.js': (function (m) {\n  function close() {}\n})});\n"

    text = outlined(body, "a.js").text

    assert "2 modules, 2 functions" in text
    assert "module ./a.js:2" in text


def test_a_function_among_others_is_no_wrapper() -> None:
    """Promise L1."""
    body = "function one() {\n  function inner() {\n    return 1;\n  }\n}\n"

    assert "inner" not in outlined(body + body.replace("one", "two"), "a.js").text


def test_tests_are_shown_by_their_titles() -> None:
    """Promise L1."""
    body = """describe('Cart', function () {
  it('opens', async () => {
    function helper() {}
  });
  describe('when closed', () => {
    it.skip("stays so?", () => {});
  });
});
test('the door', () => {});
"""

    text = outlined(body, "cart.test.js").text

    assert "test Cart:1, opens:2" in text
    assert "when closed:5, stays so?:6" in text
    assert "test the door:9" in text
    assert "helper" not in text


EXPORTS = """export const Button = React.forwardRef<Element, Props>((props, ref) => {
  return 1;
});
export const defaults = { retries: 3 };
export const store = { open() {} };
const hidden = make();
exports.First = exports.second = void 0;
exports.First = z.object({
  id: 1,
});
exports.second = hidden;
"""


def test_what_is_exported_is_shown_whatever_its_value_is() -> None:
    """Promise L1: and what has no room is counted."""
    text = outlined(EXPORTS, "a.ts").text

    assert "Button:1, defaults:4" in text
    assert "constant store:5, open():5" in text
    assert "constant First:8" in text
    assert "hidden" not in text
    assert "second" not in text
    assert Counted(EXPORTS.encode(), "code", "text/x-typescript", "a.ts").take(
        "symbol", "First"
    ).text == "".join(EXPORTS.splitlines(keepends=True)[7:10])
    many = "".join(f"export const SomeSchemaOfPart{n} = z.object({{}});\n" for n in range(300))
    text = outlined(many, "a.js").text
    assert "300 constants" in text
    assert "constants 1-300: SomeSchemaOfPart0, SomeSchemaOfPart1" in text
    assert re.search(r" \+2\d\d$", text)


def test_what_is_exported_with_a_type_alone_is_shown() -> None:
    """Promise L1."""
    body = "export declare const Schema: z.ZodObject<{\n  id: z.ZodString;\n}>;\n"
    body += "declare let inner: { a: 1 };\nexport var Region;\nexport const at: { a: 1 } = f();\n"

    text = outlined(body + "// a text to be outlined\n" * 9, "a.d.ts").text

    assert "constant Schema:1, Region:5, at:6" in text
    assert "3 constants\n" in text


def test_minified_code_is_no_list_of_its_bodies() -> None:
    """Promise L1."""
    body = "var a=function(t){return t.map(function(n){return{x:n,y:function(){return 1}}})};" * 99

    text = outlined(body, "a.min.js").text

    assert "return" not in text


def test_code_that_is_parsed_in_part_says_how_far_it_was_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Promise L1: a cut is said."""
    monkeypatch.setattr(grammars, "GRAMMAR_BYTES_MAX", 50_000)
    text = outlined("a();\n" * 30_000, "a.js").text

    assert ", read up to line 10001" in text


def test_the_types_with_a_grammar_are_sent_to_a_parser_process() -> None:
    assert set(GRAMMAR_TYPES) == set(grammars.GRAMMARS)


def test_a_process_that_cannot_be_ended_reads_by_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise L1: a grammar can hang on hostile text."""
    monkeypatch.setattr(grammars, "_allowed", [])

    assert grammars.read("text/javascript", "a.js", JAVASCRIPT, "") is None
    assert "class Cart" in outlined(JAVASCRIPT, "a.js").text


def test_a_private_member_is_found_by_its_name() -> None:
    """Promise L2."""
    text = "class Cart {\n  #hidden() {\n    return 1;\n  }\n}\n"
    body = Counted(text.encode(), "code", "text/javascript", "a.js")

    for name in ("#hidden", "Cart.#hidden", "hidden"):
        assert body.take("symbol", name).text == "  #hidden() {\n    return 1;\n  }\n"
