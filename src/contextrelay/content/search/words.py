"""Words: the search terms of a text: case-folded, split into words, stemmed, without stop words.

A name in camelCase is indexed whole and by its parts, one in snake_case by its parts. Scripts
without spaces between words (Chinese, Japanese, Thai ...) are split into pairs of characters.

Rule: a text gives the same words everywhere, and a query is processed like the texts. All
characters are plain text: a query has no syntax.
"""

from __future__ import annotations

import re
import unicodedata

# Limits: maximum word length, and number of cached stems.
WORD_CHARS_MAX = 40
# Folding may lengthen a text by this factor, as in Korean, by three; the rest is not searched. Some
# characters expand to eighteen.
FOLDED_RATIO_MAX = 4
STEMS_KEPT_MAX = 200_000

_STOP_WORDS = """
    a about above after again all am an and any are as at be because been before being below
    between both but by can could did do does doing down during each few for from further had has
    have having he her here hers him his how i if in into is it its itself just me more most my no
    nor not now of off on once only or other our ours out over own s same she should so some such t
    than that the their theirs them then there these they this those through to too under until up
    very was we were what when where which while who whom why will with would you your yours
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())

# Irregular forms of common English words, which suffix rules cannot reduce to their base.
_FORMS = """
be was were been; become became; begin began begun; bite bit bitten; blow blew blown; break broke
broken; bring brought; build built; buy bought; catch caught; choose chose chosen; come came; deal
dealt; draw drew drawn; drink drank drunk; drive drove driven; eat ate eaten; fall fell fallen; feed
fed; feel felt; fight fought; find found; fly flew flown; forget forgot forgotten; freeze froze
frozen; get got gotten; give gave given; go went gone; grow grew grown; hang hung; hear heard; hide
hid hidden; hold held; keep kept; know knew known; lead led; learn learnt; leave left; lend lent;
lose lost; make made; mean meant; meet met; pay paid; ride rode ridden; ring rang rung; rise rose
risen; run ran; say said; see saw seen; seek sought; sell sold; send sent; shake shook shaken; shoot
shot; sing sang sung; sink sank sunk; sit sat; sleep slept; speak spoke spoken; spend spent; stand
stood; steal stole stolen; swim swam swum; take took taken; teach taught; tell told; think thought;
throw threw thrown; understand understood; wake woke woken; wear wore worn; win won; write wrote
written; child children; foot feet; life lives; man men; mouse mice; person people; tooth teeth;
wife wives; woman women; index indices; matrix matrices; vertex vertices
"""

IRREGULAR: dict[str, str] = {
    form: line.split()[0] for line in _FORMS.split(";") for form in line.split()[1:]
}

_PLAIN = re.compile(r"[a-z0-9]+")
# Only at the start of a name: from every letter on, a long one would take quadratic time.
_CAMEL = re.compile(r"(?<![A-Za-z0-9])[A-Za-z0-9]*(?:[a-z0-9][A-Z]|[A-Z]{2}[a-z])[A-Za-z0-9]*")
_IS_CAMEL = re.compile(r"[a-z0-9][A-Z]|[A-Z]{2}[a-z]")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_RUN = re.compile(r"[^\W_]+")
# Scripts without spaces between words.
_JOINED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
)
_PART = re.compile(f"[{_JOINED}\U00020000-\U0003ffff]+|[^{_JOINED}\U00020000-\U0003ffff]+")
_IS_JOINED = re.compile(f"[{_JOINED}\U00020000-\U0003ffff]")


def words(text: str) -> list[str]:
    """Return the stems of a text in order, with repetitions, without stop words."""
    return [stem for stem in map(_stems.__getitem__, _raw(text)) if stem]


def query_words(text: str) -> dict[str, str]:
    """Return the stems of a query with their words; stop words only if there is nothing else."""
    raw = _raw(text)
    stems = {stem(word): word for word in reversed(raw) if word not in STOP_WORDS}
    if not stems:
        stems = {stem(word): word for word in reversed(raw)}
    return dict(reversed(stems.items()))


def stem(word: str) -> str:
    """Return the stem of a folded word, by Porter's algorithm if it is in the Latin alphabet."""
    word = IRREGULAR.get(word, word[:WORD_CHARS_MAX])
    if len(word) < 3 or not word.isascii() or not word.isalpha():
        return word
    word = _replaced(_step_1(word), _ENDS_2, _STEP_2)
    word = _replaced(word, _ENDS_3, _STEP_3)
    if found := _ENDS_4.search(word):
        rest = word[: found.start()]
        if _OVER_1.match(rest) and (found[0] != "ion" or rest.endswith(("s", "t"))):
            word = rest
    # A final e, and one l of a double l.
    if word.endswith("e"):
        rest = word[:-1]
        if _OVER_1.match(rest) or (_IS_1.match(rest) and not _SHORT.fullmatch(rest)):
            word = rest
    return word[:-1] if word.endswith("ll") and _OVER_1.match(word) else word


class _Stems(dict[str, str]):
    """A cache of stems, "" for a stop word, because texts repeat their words."""

    def __missing__(self, word: str) -> str:
        if len(self) >= STEMS_KEPT_MAX:
            self.clear()
        found = self[word] = "" if word in STOP_WORDS else stem(word)
        return found


_stems = _Stems()


def _raw(text: str) -> list[str]:
    """Return the folded words of a text in order, with the parts of joined names after them."""
    found = _PLAIN.findall(text.lower()) if text.isascii() else _folded(text)
    if _IS_CAMEL.search(text) is None:
        return found
    for name in _CAMEL.findall(text):
        parts = _HUMP.split(name)
        if len(parts) > 1:
            found += [part.lower() for part in parts]
    return found


def _folded(text: str) -> list[str]:
    # Sorting the marks of one letter takes quadratic time: isolated marks are removed first.
    plain = unicodedata.normalize("NFKD", _without_marks(text.casefold()))
    plain = _without_marks(plain[: FOLDED_RATIO_MAX * len(text)])
    plain = unicodedata.normalize("NFC", plain)
    found: list[str] = []
    for run in _RUN.findall(plain):
        if run.isascii():
            found.append(run)
            continue
        for part in _PART.findall(run):
            if len(part) > 1 and _IS_JOINED.match(part):
                found += [part[index : index + 2] for index in range(len(part) - 1)]
            else:
                found.append(part)
    return found


def _without_marks(text: str) -> str:
    return "".join([each for each in text if not unicodedata.combining(each)])


# Stemming: M. F. Porter, "An algorithm for suffix stripping", 1980.

_C = "[^aeiou][^aeiouy]*"
_V = "[aeiouy][aeiou]*"
_OVER_0 = re.compile(f"(?:{_C})?{_V}{_C}")
_IS_1 = re.compile(f"(?:{_C})?{_V}{_C}(?:{_V})?$")
_OVER_1 = re.compile(f"(?:{_C})?{_V}{_C}{_V}{_C}")
_VOWEL = re.compile(f"(?:{_C})?[aeiouy]")
_SHORT = re.compile(f"{_C}[aeiouy][^aeiouwxy]$")
_DOUBLE = re.compile(r"([^aeioulsz])\1$")

_STEP_2 = {
    "ational": "ate", "tional": "tion", "enci": "ence", "anci": "ance", "izer": "ize",
    "abli": "able", "alli": "al", "entli": "ent", "eli": "e", "ousli": "ous",
    "ization": "ize", "ation": "ate", "ator": "ate", "alism": "al", "iveness": "ive",
    "fulness": "ful", "ousness": "ous", "aliti": "al", "iviti": "ive", "biliti": "ble",
}  # fmt: skip
_STEP_3 = {
    "icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": "",
}  # fmt: skip
_STEP_4 = (
    "ement", "ance", "ence", "able", "ible", "ment", "ant", "ent", "ism", "ate", "iti", "ous",
    "ive", "ize", "ion", "al", "er", "ic", "ou",
)  # fmt: skip


def _ends(suffixes: tuple[str, ...] | dict[str, str]) -> re.Pattern[str]:
    """Return a pattern for the longest matching suffix."""
    return re.compile(f"(?:{'|'.join(sorted(suffixes, key=len, reverse=True))})$")


_ENDS_2, _ENDS_3, _ENDS_4 = _ends(_STEP_2), _ends(_STEP_3), _ends(_STEP_4)


def _step_1(word: str) -> str:
    """Remove plurals, -ed and -ing; change a final y to i if a vowel precedes it."""
    if word.endswith(("sses", "ies")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    if word.endswith("eed"):
        word = word[:-1] if _OVER_0.match(word[:-3]) else word
    elif word.endswith("ed") and _VOWEL.match(word[:-2]):
        word = _restored(word[:-2])
    elif word.endswith("ing") and _VOWEL.match(word[:-3]):
        word = _restored(word[:-3])
    if word.endswith("y") and _VOWEL.match(word[:-1]):
        word = word[:-1] + "i"
    return word


def _restored(word: str) -> str:
    if word.endswith(("at", "bl", "iz")) or _SHORT.fullmatch(word):
        return word + "e"
    return word[:-1] if _DOUBLE.search(word) else word


def _replaced(word: str, ends: re.Pattern[str], by: dict[str, str]) -> str:
    found = ends.search(word)
    if found is None or not _OVER_0.match(word[: found.start()]):
        return word
    return word[: found.start()] + by[found[0]]
