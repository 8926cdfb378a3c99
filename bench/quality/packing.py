"""Packing: how much of the evidence is in a package, for talk, documents and tool output; its time.

LoCoMo is what weights were chosen on (locomo.py). The others were not looked at for that: FriendsQA
(scenes of a series, a question's evidence is the turn that answers it; the part `tst`), XQuAD
(paragraphs of articles in English), and lines of logs, each asked for by its rarest word and one
more. REALTALK (chats of people over weeks, asked about as LoCoMo's are) was looked at, to choose
how vectors are added. They are read from the folder that BENCH_PACK names: friendsqa_tst.json,
xquad.en.json, *.log, realtalk/Chat_*.json (those of its folder data).
"""

from __future__ import annotations

import os
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from msgspec.json import decode

from bench.measure import Curve, Result
from bench.quality import locomo
from bench.quality.locomo import Talk
from contextrelay import Block, Relay

QUESTIONS_MAX = 120
LINES_MAX = 700
_WORD = re.compile(r"[A-Za-z0-9_]{2,}")


def scenarios(folder: Path) -> Iterator[Curve | Result]:
    yield from locomo.scenarios(folder)
    given = os.environ.get("BENCH_PACK")
    for name, read in _OTHERS.items():
        talks = read(Path(given)) if given else []
        if talks:
            yield locomo.curve(f"{name}, {len(talks)} sets: evidence recall", talks, None, {})
    yield from _times(folder)


def _times(folder: Path) -> Iterator[Curve]:
    """A pack of a thread with over 600 blocks, asked before, with a new question each time."""
    talk = max(locomo.read_talks(), key=lambda talk: len(talk.blocks))
    points: dict[str, float] = {}
    for name, place in (("in memory", "memory:"), ("in a file", str(folder / "store"))):
        with Relay(place) as relay:
            thread = relay.thread("talk")
            thread.add_blocks(talk.blocks)
            thread.pack("warm", 1_024)

            times = [_spent_ms(thread, question) for question, _ in talk.questions[:60]]
            points[name] = median(times)
    name = f"a pack of {len(talk.blocks)} blocks, warm, processor time"
    yield Curve(name, "ms", points, "< 10 ms", max(points.values()) < 10)


def _spent_ms(thread: Any, question: str) -> float:
    started_s = time.process_time()
    thread.pack(question, 1_024)
    return 1_000 * (time.process_time() - started_s)


def _friends(folder: Path) -> list[Talk]:
    """A talk is a season, a group a scene; the evidence the turn of a question's first answer."""
    path = folder / "friendsqa_tst.json"
    if not path.exists():
        return []
    scenes: list[dict[str, Any]] = decode(path.read_bytes())["data"]
    seasons: dict[str, Talk] = {}
    for scene in sorted(scenes, key=lambda scene: scene["title"]):
        title: str = scene["title"]
        talk = seasons.setdefault(title.partition("_")[0], Talk(title, [], []))
        for part in scene["paragraphs"]:
            for turn in part["utterances:"]:
                said = f"{', '.join(turn['speakers'])}: {turn['utterance']}"
                talk.blocks.append(Block(f"{title}:{turn['uid']}", said, "USER", group=title))
            for asked in part["qas"]:
                evidence = {f"{title}:{asked['answers'][0]['utterance_id']}"}
                talk.questions.append((asked["question"], evidence))
    return [_some(talk) for talk in seasons.values()]


def _chats(folder: Path) -> list[Talk]:
    """A talk is a chat, a group a day of it or so, as its makers cut it."""
    return [_chat(path) for path in sorted(folder.glob("realtalk/Chat_*.json"))]


def _chat(path: Path) -> Talk:
    chat: dict[str, Any] = decode(path.read_bytes())
    blocks: dict[str, Block] = {}
    number = 1
    while turns := chat.get(f"session_{number}"):
        for turn in turns:
            day, month, year = map(int, turn["date_time"][:10].split("."))
            at_ms = round(datetime(year, month, day, tzinfo=UTC).timestamp() * 1000)
            said = f"{turn['speaker']}: {turn['clean_text']}"
            name = turn["dia_id"]
            blocks[name] = Block(name, said, "USER", timestamp=at_ms, group=str(number))
        number += 1
    talk = Talk(path.stem, list(blocks.values()), [])
    for asked in chat["qa"]:
        named = re.findall(r"D\d+:\d+", " ".join(map(str, asked["evidence"])))
        if evidence := blocks.keys() & set(named):
            talk.questions.append((asked["question"], evidence))
    return talk


def _documents(folder: Path) -> list[Talk]:
    path = folder / "xquad.en.json"
    if not path.exists():
        return []
    talk = Talk("xquad", [], [])
    for article in decode(path.read_bytes())["data"]:
        for paragraph in article["paragraphs"]:
            name = str(len(talk.blocks))
            text = paragraph["context"]
            talk.blocks.append(Block(name, text, "KNOWLEDGE", group=article["title"]))
            talk.questions.extend((asked["question"], {name}) for asked in paragraph["qas"])
    return [_some(talk)]


def _logs(folder: Path) -> list[Talk]:
    return [_log(path) for path in sorted(folder.glob("*.log"))]


def _log(path: Path) -> Talk:
    lines = [line for line in path.read_text(errors="replace").split("\n") if line.strip()]
    talk = Talk(path.name, [], [])
    counts = Counter(word for line in lines[:LINES_MAX] for word in set(_WORD.findall(line)))
    lot = random.Random(path.name)
    for number, line in enumerate(lines[:LINES_MAX]):
        talk.blocks.append(Block(str(number), line, "TOOL"))
        words = list(dict.fromkeys(_WORD.findall(line)))
        rare = min(words, key=lambda word: (counts[word], -len(word)), default="")
        others = [word for word in words if word != rare]
        if others and counts[rare] == 1:
            talk.questions.append((f"{rare} {lot.choice(others)}", {str(number)}))
    return _some(talk)


def _some(talk: Talk) -> Talk:
    lot = random.Random(talk.name)
    chosen = lot.sample(talk.questions, min(QUESTIONS_MAX, len(talk.questions)))
    return Talk(talk.name, talk.blocks, chosen)


_OTHERS: dict[str, Callable[[Path], list[Talk]]] = {
    "talk (FriendsQA)": _friends,
    "chats (REALTALK)": _chats,
    "documents (XQuAD)": _documents,
    "tool output (lines of logs)": _logs,
}
