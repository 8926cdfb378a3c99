"""Phrases: known prompt injection phrases, and the markers of chat templates.

Two kinds of pattern. A phrase is searched in the squeezed text: only the folded letters, each word
capitalised (so spaces, emphasis, line breaks and spaced-out letters cannot hide it). A marker is
searched in the folded text, which still has punctuation, and ignores gaps.

Rule: no pattern may count gaps or scan them twice, so that each is linear, and matches a text and
its defused form alike. Ordinary prose must stay unchanged: a phrase names what to ignore, or whom
to become; a verb alone is never enough.
"""

from __future__ import annotations

import re
from functools import cache, cached_property

from contextrelay.content.prefilter import Prefilter, compiled

OVERRIDE = "override-instructions"
# Many phrases start alike; searching only for their first letters halves the number of searches.
_HEAD_CHARS = 5


class Phrase:
    """A phrase: its name, its possible beginnings, and the full pattern."""

    def __init__(
        self, name: str, heads: frozenset[str], source: str, *, opens_sentence: bool
    ) -> None:
        self.name, self.heads, self.source = name, heads, source
        self.opens_sentence = opens_sentence

    @cached_property
    def whole(self) -> re.Pattern[str]:
        # Compiled when first needed: all of them take 30 ms, and most texts need none.
        return re.compile(self.source, re.VERBOSE | re.IGNORECASE)


class Marker:
    """A marker: its name, its first character or possible first words, and the full pattern."""

    def __init__(
        self, name: str, sign: str, words: tuple[bytes, ...], source: str, *, opens_line: bool
    ) -> None:
        self.name, self.sign, self.words, self.source = name, sign, words, source
        self.opens_line = opens_line

    def is_possible(self, folded: str, squeezed: bytes) -> bool:
        """Return True if its character is in the folded text, or a word of it in the letters."""
        if self.sign:
            return self.sign in folded
        return any(word in squeezed for word in self.words)

    @cached_property
    def whole(self) -> re.Pattern[str]:
        return re.compile(self.source)


def _phrase(name: str, heads: str, rest: str, *, opens_sentence: bool = False) -> Phrase:
    """Compile a phrase; `<` and `>` in it mean the start and the end of a word.

    Small L and capital I look alike, so squeezing makes both an I; the patterns do the same.
    """
    words = heads.replace(" ", "").replace("l", "i").split("|")
    # Only these are so unlike ordinary prose that they may directly follow other letters.
    source = f"{'' if name == OVERRIDE else '<'} (?:{heads}) {rest}".replace("l", "i")
    source = source.replace("<", "(?-i:(?=[A-Z]))").replace(">", "(?-i:(?![a-z]))")
    heads_only = frozenset(word[:_HEAD_CHARS] for word in words)
    return Phrase(name, heads_only, source, opens_sentence=opens_sentence)


_ABOVE = r"""(?:previous(?:ly)?|prior|above|preceding|earlier|foregoing|initial|original
    |aforementioned)"""
_FILL = rf"""(?:all|any|every|each|of|the|your|my|our|its|these|those|this|that|such|other|and|or
    |to|about|just|completely|entirely|system|developer|user|safety|security|ethical|moral|content
    |hidden|internal|given|provided|openai s?|anthropic s?|default|current|{_ABOVE})"""
_ORDERS = r"""(?:instructions?|prompts?|commands?|directions?|directives?|guidelines?|guidance
    |rules?|orders?|programming|training|constraints?|restrictions?|limitations?|safeguards?
    |policy|policies|protocols?)"""
_TALK = r"""(?:context|conversations?|messages?|text|content|inputs?|tasks?|requests?|information
    |statements?|dialogue?|chats?|history|quer(?:y|ies)|questions?|assignments?|sentences?)"""
_SO_FAR = r"""(?:you (?:have|ve|were|are|had|know|learn)
    (?:been)? (?:told|given|taught|learn(?:ed|t))? |i (?:have|ve)?(?:said|told|wrote)
    |that (?:you|was|were|came)|we (?:have|talk|discuss)|said|told|written|so far|until now|up to
    |before|above|prior|previous)"""
_FREE = r"""(?:unrestricted|unfiltered|uncensored|unhinged|jailbroken|amoral|evil|immoral|unethical
    |unlimited|rogue|malicious|dan>)"""
_BECOME = r"(?:act|pretend|behave|roleplay|role play|play|simulate|impersonate|immerse|take on)"
_MODE = r"""(?:developer|dev|debug|god|admin|root|sudo|jailbreak|jailbroken|dan|unrestricted
    |maintenance|opposite|evil) mode"""

PHRASES: tuple[Phrase, ...] = (
    _phrase(
        OVERRIDE,
        "ignore|ignoring|disregard|disregarding|forget|forgetting|neglect|do not follow|dont follow"
        "|do not obey|dont obey|do not comply with|stop following|stop obeying|pay no attention to"
        "|do not listen to|set aside",
        rf"""{_FILL}{{0,6}} (?:
            {_ABOVE} {_FILL}{{0,4}} (?:{_ORDERS}|{_TALK}) >
            |(?:your|system|openai s?) {_FILL}{{0,3}} {_ORDERS} >
            |(?:all|any|every|each|other) {_FILL}{{0,3}} (?:instructions?|prompts?|directives?) >
            |{_ORDERS} (?:given to|above|before this|so far|you (?:were|have|ve|got|received))
        )""",
    ),
    _phrase(
        OVERRIDE,
        "ignore|disregard|forget",
        rf"""(?:
            (?:all|everything|anything|of|about|that|the|is|was|what|whatever|comes){{0,6}} above >
                (?! warning|error|notice|message|mail|email|deprecat|exception|output|line)
            |(?:about)? (?:everything|anything|all)
                (?:else|that|of|it|from|was|is|has been|the){{0,3}} {_SO_FAR}
        )""",
    ),
    _phrase(
        OVERRIDE,
        "override|overriding|overwrite|bypass|bypassing|circumvent|discard|skip|violate",
        rf"""{_FILL}{{0,5}} (?:
            (?:your|system|all|any|{_ABOVE}) {_FILL}{{0,3}}
                (?:instructions?|directives?|guidelines?|programming|training|prompts?)
            |(?:your|openai s?|ethical|moral) {_FILL}{{0,3}} (?:{_ORDERS}|filters?|measures?)
        ) >""",
    ),
    _phrase(
        OVERRIDE,
        "ignora|ignorez|ignore|ignoriere|vergiss|olvida|oublie|oubliez|dimentica|esqueca",
        r"""(?:todas?|todos?|toutes?|tous|tutte|tutti|alle|las|los|les|le|gli|as|os|tes|vos|tus|die
            |deine|instrucciones|instructions|instrucoes|istruzioni|anweisungen|consignes|ordenes
            |previas|anteriores){0,4}
        (?:anteriores|previas|previos|precedentes?|precedenti|vorherigen? anweisungen
            |bisherigen? anweisungen|obigen? anweisungen|vorigen? anweisungen) >""",
    ),
    _phrase(
        "new-identity",
        "you are now|you re now|you will now be|you shall now be|from now on you are",
        rf"""(?:
            (?:an?|the|my)? {_FREE}
            |(?:an?|the|my) > (?! member|subscri|customer|follower|owner|citizen|part|resident|user
                |participant|student|registered|verified|able|only|first|last|next)
            |called > |named > |known as |acting |operating |playing |roleplay |pretending
            |going to {_BECOME} |to {_BECOME}
            |free (?:from|of) |no longer (?:bound|restricted|limited|an?>|subject|chatgpt|gpt)
            |in (?:an?|the)? {_MODE} |chatgpt |gpt |claude |stan> |dude>
        )""",
    ),
    _phrase(
        "new-identity",
        "from now on|from now onwards|from this point on|from this point forward|henceforth"
        "|from here on out|from here on|for the rest of this conversation|from this moment",
        rf"""(?:and|on|onwards?|forward){{0,2}} (?:please)? (?:
            you (?:are>|re>|only|act>|become>|respond|answer|reply|must|shall)
            |you (?:will|ll|should|have to) (?:not|no longer|only|always|ignore|respond|answer|reply
                |be>|speak|refer|follow|assume|{_BECOME})
            |ignore|disregard|respond |answer > |reply > |{_BECOME} (?:as|to|like|that|with))""",
    ),
    _phrase(
        "new-identity",
        "you are going to|you are about to|you will|you must|you should|you shall|you have to"
        "|i want you to|i need you to|i would like you to|id like you to|your task is to"
        "|your job is to",
        rf"""(?:now|also|always|just|please|only|begin to|start to|completely|fully){{0,2}} (?:
            act (?:as|like) > |pretend (?:to|you|that|as|like|ing) |role play (?:as|the|with)
            |roleplay
            |simulate (?:dan|an ai|being|a(?:n|nother)? (?:ai|chat|language|developer))
            |impersonate |behave as |pose as |immerse your self|play the role
            |take on the (?:role|persona)
            |become an? {_FREE} |be playing )""",
    ),
    _phrase(
        "new-identity",
        "act as|act like|pretend to be|pretend that you are|pretend you are|pretend you re"
        "|roleplay as|role play as|imagine you are|behave as|answer as|respond as|speak as",
        rf"""(?:if)? (?:you (?:are|were|re|have))? (?:an?|the|my|both)? (?:
            (?:fully|completely|totally|truly)? {_FREE}
            |(?:ai|assistant|chatbot|language model|bot|entity|model) (?:that|who|which|with|without
                |named|called) |another ai |different ai |chatgpt> |gpt > |developer mode
            |not bound|no longer bound|free from|no (?:restrictions|rules|limits|filter|ethic)
        )""",
    ),
    _phrase("new-identity", "act as|act like", "(?:an?|my|the|if) >", opens_sentence=True),
    _phrase("new-identity", "act as if you|act as though you", "(?:are|were|re|have|had|can|do)"),
    _phrase(
        "new-identity",
        "your new",
        r"(?:role|task|instructions?|rules?|objective|goal|identity|persona|name|purpose|directives?)"
        r" (?:is|are|will be|from now) >",
    ),
    _phrase(
        "system-prompt",
        "new system|updated system|begin system|end system|end of system",
        r"(?:prompts?|instructions?|messages?|directives?) >",
    ),
    _phrase(
        "system-prompt",
        "system prompt override|system override|admin override|administrator override"
        "|developer override|end of prompt|end of instructions",
        ">",
    ),
    _phrase(
        "system-prompt",
        "reveal|show|print|output|repeat|display|tell|give|leak|expose|share|disclose|dump|recite"
        "|write|describe|summarize|what is|what are|whats|what was|translate|extract|return",
        r"""(?:me|us|out|back|verbatim|all|of|the|contents?|text|full|exact|entire){0,5} (?:
            (?:your|its|ai s?) (?:full|entire|exact|hidden|secret|initial|original|complete|whole
                |own|current|internal|first|system|pre|developer|base){0,3}
                (?:prompts?|instructions?|guidelines?|system message|directives?) >
            |(?:the|this|full|entire) (?:full|entire|exact|hidden|secret|complete|initial|original
                |above){0,2} (?:system (?:prompt|message|instructions?)|initial prompt
                |(?:words|text|instructions?|prompt) above) >
            |everything above > |all (?:the)? (?:words|text) above > )""",
    ),
    _phrase(
        "jailbreak",
        "do anything now|dan mode|stay a dan|developer mode enabled|developer mode output"
        "|developer mode activated|jailbroken|jailbreak mode|jailbreak prompt|jailbreak yourself"
        "|always intelligent and machiavellian|strive to avoid norms|unfiltered and amoral"
        "|amoral and unfiltered|uncensored and unfiltered|unfiltered and uncensored"
        "|unfiltered and unrestricted|unrestricted and unfiltered|evil confidant"
        "|do not break character|never break character|dont break character",
        ">",
    ),
    _phrase(
        "jailbreak",
        "as an",
        rf"(?:completely|fully|totally)? {_FREE} (?:and|completely|unlimited|or){{0,3}}"
        r" (?:ai|language model|chatbot|assistant|model|version|llm)>",
    ),
    _phrase(
        "jailbreak",
        "you have no|you now have no|you dont have any|you do not have any",
        r"(?:any|ethical|moral|content|more|safety){0,3}"
        r" (?:restrictions?|rules|limitations?|filters?|guidelines) >",
    ),
    _phrase(
        "jailbreak",
        "enter|enable|activate|switch to|switching to|simulate|you are in|you re in|go into",
        rf"(?:an?|the|your|full|chatgpt|gpt|with|into|in|to){{0,4}} {_MODE} >",
    ),
    _phrase(
        "jailbreak",
        "without|free of|free from|freed from|bound by|unbound by|ignores|has no|have no|having no"
        "|does not follow|doesnt follow|not restricted by|not limited by|not subject to"
        "|disregards|not care about|not adhere to|disregarding",
        r"""(?:any|all|the|its|your|of|or|and|kind|sort|such|own){0,4}
            (?:ethical|moral|morality|content|censorship|openai s?|chatgpt s?|anthropic s?)
            (?:or|and|ethical|moral|legal|safety|content|usage|use|s){0,4}
            (?:guidelines?|restrictions?|limitations?|constraints?|filters?|polic(?:y|ies)
                |boundaries|rules?|concerns|considerations?|limits) >""",
    ),
    _phrase(
        "jailbreak",
        "regardless of|no regard for|any regards for|regards for|care about|without regard for",
        r"(?:at all|about|the|any|its){0,3} (?:legality|ethicality|morality|ethics|danger)"
        r" (?:or|and)? (?:legality|ethicality|morality|ethics|danger) >",
    ),
    _phrase(
        "jailbreak",
        "broken free of|broken free from|break free of|break free from|broken|escaped|freed from",
        r"(?:the|all|its|your|of|from){0,2} typical (?:confines|shackles|chains|bounds)",
    ),
    _phrase(
        "jailbreak",
        "abide by|follow|obey|adhere to|comply with|bound by|break",
        r"(?:any|the|all|of|your|their){0,3}"
        r" (?:rules|guidelines|restrictions) (?:set|imposed|placed) (?:for|on|upon|by)"
        r" (?:them|you|openai|ai|it)>",
    ),
    _phrase(
        "jailbreak",
        "never refuse|never refuses|cannot refuse|can not refuse|cant refuse|will not refuse"
        "|must not refuse|never decline|never declines|never rejects",
        r"(?:an?|any|to|my|the|me|and|or|direct|anything) (?:users?|human)? s?"
        r" (?:requests?|orders?|answer|commands?|questions?|instructions?|prompts?|inform|provide)",
    ),
    _phrase(
        "jailbreak",
        "do not say|dont say|never say|never says|do not mention|never mention|dont mention"
        "|do not state|never tell me|never tells|cannot say",
        r"""(?:that|me|anything|about|things|phrases|like){0,3} (?:
            you (?:are|re) an? (?:ai|language)
            |you (?:cannot|can not|cant|are unable)|i (?:cannot|cant|m sorry|apologize|am sorry)
            |as an ai>|something is (?:un|il|in|not|against))""",
    ),
    _phrase(
        "concealment",
        "do not tell|do not inform|do not alert|dont tell|dont inform|dont alert|without telling"
        "|without informing|without alerting|never tell|hide this from|keep this from"
        "|keep this secret from|keep this hidden from|do not reveal this to|do not mention this to",
        r"(?:the|your|any|to){0,2} (?:user|human|operator) s? >",
    ),
    _phrase(
        "concealment",
        "do not mention|dont mention|do not reveal|dont reveal|do not disclose|never mention"
        "|never reveal",
        r"(?:these|this|any|of|your|above|hidden){0,3} (?:instructions?|system prompt) >",
    ),
)

HEADS: dict[str, tuple[Phrase, ...]] = {
    head: tuple(phrase for phrase in PHRASES if head in phrase.heads)
    for head in sorted(frozenset[str]().union(*(phrase.heads for phrase in PHRASES)))
}


def _marker(before: str, words: str, after: str, *, opens_line: bool = False) -> Marker:
    """Compile a marker: one of `words`, with optional gaps and spaces between the letters."""
    spread = "|".join(r"[\0 ]*".join(map(re.escape, word)) for word in words.split("|"))
    name = "turn-marker" if opens_line else "chat-template"
    source = f"{before}(?:{spread}){after}"
    sign = before.removeprefix("\\")[:1]
    return Marker(name, sign, tuple(words.encode().split(b"|")), source, opens_line=opens_line)


MARKERS: tuple[Marker, ...] = (
    # Any name between bars: im_start, system, endoftext, start_header_id, eot_id, fim_prefix ...
    _marker(r"<[\0\s]*\|", "", r"(?:\0*[a-z0-9_/ .-]){1,40}\0*\|[\0\s]*>"),
    _marker(
        r"<[\0\s]*(?:/[\0\s]*)?",
        "system|assistant|human|system-prompt|system_prompt|systemprompt|system-message"
        "|system_message|system-reminder|system_reminder|instructions|start_of_turn|end_of_turn"
        "|function_calls|function_results|tool_call|tool_calls|tool_use|tool_result|tool_results"
        "|tool_response|begin_of_text|end_of_text",
        r"(?:[\0\s/][^<>]*)?>",
    ),
    _marker(r"<[\0 ]*<[\0 ]*(?:/[\0 ]*)?", "sys", r"[\0 ]*>[\0 ]*>"),
    _marker(
        r"\[[\0 ]*(?:/[\0 ]*)?",
        "inst|system_prompt|available_tools|tool_calls|tool_results",
        r"[\0 ]*\]",
    ),
    _marker(r"\[[\0 ]*", "system|assistant|user", r"[\0 ]*\][\0 ]*\([\0 ]*\#"),
    _marker(
        r"\#\0*\#\0*\#[\0 *_]*",
        "instruction|response|input|system|human|assistant|user",
        r"[\0 *_]*:",
        opens_line=True,
    ),
    # Without a space or a colon it is not a Markdown heading.
    _marker(r"\#\0*\#\0*\#\0*", "instruction|system", r"(?![a-z])"),
    _marker("", "human|assistant", r"[\0 *_]*:", opens_line=True),
    # A line that starts with `system:` is common in settings, but not with these words after it.
    _marker(
        "",
        "system",
        r"[\0 *_]*:[\0\s*_\"]*"
        r"(?:you|ignore|disregard|forget|override|new|from[\0 ]+now)(?![a-z])",
        opens_line=True,
    ),
)


# Number of texts after which compiling the combined pattern pays off.
PREFILTER_TEXTS_MIN = 16

_texts_seen = 0


def may_hold_phrase(squeezed: bytes) -> bool:
    """Return False if a squeezed text contains no phrase.

    For the first few texts of a process return True: compiling the combined pattern takes longer
    than searching these without it.
    """
    global _texts_seen
    if _texts_seen < PREFILTER_TEXTS_MIN:
        _texts_seen += 1
        return True
    return phrase_prefilter().search(squeezed) is not None


# `(?-i:(?=[A-Z]))` and `(?-i:(?![a-z]))`: word boundaries; words that must not follow.
_NARROWS = re.compile(r"\(\?-i:\(\?[=!]\[[A-Za-z-]+\]\)\)|\(\?![^()]*\)")


@cache
def phrase_prefilter() -> Prefilter:
    """Return the combined pattern of all phrases, without their narrowing conditions."""
    sources = (_NARROWS.sub("", "".join(phrase.source.split())) for phrase in PHRASES)
    return compiled("(?i)" + "|".join(f"(?:{source})" for source in sources))
