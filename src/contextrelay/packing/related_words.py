"""Related words: words that the answer may use for a word of the question.

Rule: common English words only, no names and no special subjects; a related word never counts
as much as the word itself (weights.py).
"""

from __future__ import annotations

from functools import cache

from contextrelay.content.search.words import stem

# Words that say in a question how something is asked, not what the question is about.
_FRAMING = """
    according anything consider could describe different ever far feel get go happen know let likely
    long many mention might much name new often per recently said say someone something sort
    specific specifically take thing think thought time type kind use way would
"""

# In each group, the other words may be used for the first word.
_SYNONYMS = """
child kid baby toddler; kid child; son boy; daughter girl; mother mom mum; mom mother; father dad;
dad father; parent mom dad mother father; husband wife spouse partner; wife husband spouse partner;
spouse husband wife partner; sibling brother sister; grandmother grandma; grandfather grandpa;
family relative fam; relative family; friend buddy pal; neighbor neighbour; boss manager;
colleague coworker; doctor physician; hospital clinic; sick ill; ill sick; illness disease sick;
photo picture pic image photograph; picture photo pic image; image photo picture pic; movie film;
film movie; television tv show; show series display; car vehicle; vehicle car truck; bike bicycle;
job work career; career job work profession; work job; profession job career; occupation job work;
company business firm; business company biz firm; shop store; store shop; house home apartment;
home house apartment; apartment flat; furniture couch table chair; buy purchase get;
purchase buy get; receive get; obtain get; begin start; start begin launch open; launch start open;
finish complete end; complete finish; end finish; help assist support aid; support help;
assist help; aid help; like love enjoy; love like enjoy; enjoy like love; prefer like;
favorite fave fav; hobby interest activity pastime; activity hobby; interest hobby;
sad upset unhappy; upset sad; happy glad excited; glad happy; excite happy thrilled;
angry mad upset; mad angry; scared afraid fear; afraid scared; fear scared afraid;
worry concern nervous; nervous anxious worry; anxious nervous; stress anxiety;
relax unwind calm destress; calm relax peaceful; big large huge; large big huge; small little tiny;
little small; quick fast; fast quick; pet dog cat puppy kitten; puppy dog pup; dog puppy pup;
cat kitten; kitten cat; animal pet; food meal dish; meal food dinner lunch; dish meal food;
dinner meal; cook bake recipe; bake cake cook; dessert cake; recipe cook dish; drink beverage;
restaurant cafe dinner; trip travel vacation roadtrip getaway; travel trip visit;
vacation holiday trip; holiday vacation; journey trip; visit trip; tour visit trip; beach sea ocean;
ocean sea beach; hike trail; walk hike stroll; run jog race; race run marathon; marathon race;
exercise workout gym fitness; workout exercise gym; gym workout; fitness exercise; sport game;
school college university class; university college; college university; class course lesson;
course class; lesson class; student pupil; teacher instructor; coach mentor trainer; mentor coach;
learn study; study learn; book novel; novel book; author writer; music song; song music;
instrument guitar piano violin; concert show gig; art painting drawing; draw sketch; game play;
team squad crew club; club group; group team; win victory; prize award trophy; award prize;
contest competition tournament; competition contest tournament comp; tournament competition;
speak talk; talk speak chat; discuss talk; conversation talk chat; meet encounter; plan intend;
goal aim dream; dream goal; want wish hope; hope wish; decide choose decision; choose pick decide;
decision decide; create make; build construct; donate give; charity volunteer donation;
volunteer charity; fundraise raise donation; money cash fund; cost price; price cost; sell sale;
repair fix; fix repair; break damage; problem issue challenge trouble; issue problem;
challenge difficulty struggle; difficult hard tough; difficulty challenge struggle;
struggle challenge hard; hard tough difficult; obstacle challenge hurdle; setback obstacle;
country nation; nation country; city town; town city; place location spot; location place spot;
spot place; live reside; reside live; move relocate; marry wedding; marriage wedding marry;
wedding marry marriage; engage propose; divorce breakup; birthday celebrate; celebrate party;
party celebration; event festival; festival event; present gift; gift present;
clothes clothing outfit; clothing clothes outfit; outfit clothes dress; shoe sneaker;
jewelry necklace ring; phone call smartphone; email message; message text email; letter note;
advice tip suggestion; tip advice; suggestion advice; recommend suggest; suggest recommend;
motivate inspire; inspire motivate; inspiration inspire; encourage motivate support; reason because;
important significant; church faith religion; religion church faith; faith church religion;
pray prayer; die death pass; death die pass; hurt injury; injury hurt; accident crash;
storm flood hurricane; weather rain sunny; garden plant flower; flower plant; tree plant; camp tent;
lake river; mountain hill; pottery clay; craft diy; computer laptop pc; laptop computer;
app application; application app; internet online web; website site blog; video clip;
quit stop leave; stop quit; cancel stop; allow permit; permit allow; join enroll sign; attend go;
participate join attend; return back; leave quit; arrive come; happen occur; occur happen;
cause reason; effect impact result; impact effect; result outcome; outcome result; improve better;
change switch; achieve accomplish; accomplishment achievement; success achieve; fail error;
error failure exception fail; failure fail error; delete remove; remove delete; add insert;
insert add; slow latency; bug defect issue; config setting; setting config option; option setting;
password credential secret; version release; deploy release rollout; server host; folder directory;
directory folder; file document; log record; method function; function method; argument parameter;
parameter argument; field column; row record; timeout expire; limit maximum; maximum limit max;
minimum min; average mean; increase grow rise; decrease reduce drop; reduce decrease; display show;
retry attempt; crash fail
"""


@cache
def framing_words() -> frozenset[str]:
    """Return the stems of words that only frame a question."""
    return frozenset(map(stem, _FRAMING.split()))


@cache
def synonyms() -> dict[str, tuple[str, ...]]:
    """Return a dict that maps the stem of a word to the stems of its related words."""
    found: dict[str, tuple[str, ...]] = {}
    for line in _SYNONYMS.split(";"):
        word, *others = map(stem, line.split())
        found[word] = tuple(other for other in others if other != word)
    return found


BEGINNING_CHARS = 4
_LONGER_CHARS_MAX = 4


def begin_alike(word: str, other: str) -> bool:
    """Return True if two stems are one stem with different endings: danc and dancer, child and
    childhood.

    Both stems must start with the same `BEGINNING_CHARS` characters. If both stems are longer, the
    last character of the shorter one may differ: psychologi and psycholog.
    """
    short, long = (word, other) if len(word) <= len(other) else (other, word)
    longer = len(long) - len(short)
    if len(short) >= BEGINNING_CHARS and longer <= _LONGER_CHARS_MAX and long.startswith(short):
        return True
    is_long = len(short) >= BEGINNING_CHARS + 2 and longer < _LONGER_CHARS_MAX
    return is_long and long.startswith(short[:-1])
