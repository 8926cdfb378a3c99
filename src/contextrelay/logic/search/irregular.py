"""Irregular forms of common English words, which no rule of endings leads back to their base."""

from __future__ import annotations

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
"""From a form to its base."""
