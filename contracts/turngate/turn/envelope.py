"""Finds and validates the envelope with which an agent ends its turn (docs/protocol.md)."""

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain, islice, takewhile
from operator import itemgetter
from typing import Any, get_args

import msgspec
from msgspec import Struct, field

from turngate.contract import load
from turngate.decoding import convert
from turngate.model import MAX_NAME, MAX_NAMES, MAX_PROMPT, Interaction, InteractionKind, Repair
from turngate.strict_json import DECODER, flaw

# what may begin an object, or a list that isn't empty
OPENING = re.compile(r"""\{[ \t\n\r]*+"|\[[ \t\n\r]*+["{\[0-9tfnNI-]""")
_STRING = r'"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4}))*+"'
_NUMBER = r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][-+]?[0-9]++)?+"
_TOKEN = re.compile(
    rf"[ \t\n\r]*+(?:(?P<text>{_STRING})|(?P<mark>[][}}{{:,])|(?P<plain>{_NUMBER}|-?Infinity|NaN|true|false|null))"
)
_BRACKET = re.compile(r"[{[]")
_BLANK = re.compile(r"[ \t\n\r]*+")

# what may come next, and what follows it: by the token, which is a mark, a text or another plain value
_VALUE = {"text": "after", "plain": "after", "{": "first key", "[": "first item"}
_STEPS = {
    "first key": {"text": "colon", "}": "close"},
    "key": {"text": "colon"},
    "colon": {":": "value"},
    "value": _VALUE,
    "first item": {**_VALUE, "]": "close"},
    "after in {": {",": "key", "}": "close"},
    "after in [": {",": "value", "]": "close"},
}
MAX_TEXT = 4 * 2**20
MAX_BROKEN = 2**16
KINDS: tuple[str, ...] = get_args(InteractionKind)
_FIELDS = set(Interaction.__struct_fields__)
_LISTS = ("options", "required_fields")
_KEYS = _FIELDS | {"outcome", "interaction", "final_data"}
_SHOWN = 10  # unknown keys in an error message
_FENCE = re.compile(r"```[A-Za-z0-9]*[ \t]*\n")
# the beginning of a string, number or word
_CUT_OFF = re.compile(r'(?:"(?:[^"\\]|\\.)*+\\?|[-+.\w]*+)\s*+', re.DOTALL)


class Scan(Struct, frozen=True):
    """What a scan for a key found, and where the readable part ends: behind the object or list if it `is_complete`.

    `has_key` says that an object has the key in its readable part, not counting objects within it. A list that can't be
    read to its end counts as its items: `has_key` is that of its last, broken item, and `items` are the places of the
    other objects with the key. `strings` are the places of the strings that may hold another opening, in order.
    """

    end: int
    is_complete: bool
    has_key: bool
    items: tuple[tuple[int, int], ...] = ()
    strings: tuple[tuple[int, int], ...] = ()

    def next_string(self, at: int) -> int:
        """Return `at` if it is in one of `strings`, else where the next one begins; `end` if there is none."""
        following = bisect_right(self.strings, at, key=itemgetter(0))
        if following and at < self.strings[following - 1][1]:
            return at
        return self.strings[following][0] if following < len(self.strings) else self.end


class _Open(Struct):
    """An object or list that is being read; `items` are the places of objects with the key in a list."""

    mark: str
    start: int
    has_key: bool = False
    items: list[tuple[int, int]] = field(default_factory=list)

    def take(self, item: "_Open", end: int) -> None:
        """Note a part that has been read to its end."""
        if item.has_key and self.mark == "[":
            self.items.append((item.start, end))


def scan(text: str, at: int, key: str) -> Scan:
    """Scan the object or list that begins at `at`; `key` is the key to look for. The time is linear."""
    open_, awaits = [_Open(text[at], at)], _VALUE[text[at]]
    is_named = False
    strings: list[tuple[int, int]] = []
    end = at + 1
    while token := _TOKEN.match(text, end):
        kind = token["mark"] or token.lastgroup or ""
        if kind == "text":
            is_named = awaits in ("first key", "key") and _is(token[kind], key)
            if _BRACKET.search(token[kind]):
                strings.append(token.span(kind))
        step = _STEPS[awaits].get(kind)
        if step is None:
            break
        end = token.end()
        if kind == ":":
            open_[-1].has_key |= is_named
        elif step == "close":
            closed = open_.pop()
            if not open_:
                return Scan(end, is_complete=True, has_key=closed.has_key)
            open_[-1].take(closed, end)
        elif kind in ("{", "["):
            open_.append(_Open(kind, end - 1))
        awaits = f"after in {open_[-1].mark}" if step in ("close", "after") else step
    if blank := _BLANK.match(text, end):
        end = blank.end()
    # a text that is cut off right behind the key
    open_[-1].has_key |= is_named and awaits == "colon" and end == len(text)
    return _broken(open_, end, tuple(strings))


def _broken(open_: list[_Open], end: int, strings: tuple[tuple[int, int], ...]) -> Scan:
    """Return what an object or list counts as that can't be read to its end; `open_` leads to where that is."""
    lists = list(takewhile(lambda part: part.mark == "[", open_))
    last = open_[len(lists) : len(lists) + 1]
    items = tuple(chain.from_iterable(part.items for part in lists))
    return Scan(end, is_complete=False, has_key=any(part.has_key for part in last), items=items, strings=strings)


def _is(word: str, key: str) -> bool:
    """Whether a JSON string means `key`."""
    return word[1:-1] == key or ("\\u" in word and json.loads(word) == key)


class Envelope(Struct, frozen=True):
    """A valid envelope: a question, or final data; `repair` is the repair needed to read it."""

    interaction: Interaction | None
    final_data: Any
    repair: Repair


class BadEnvelope(Struct, frozen=True):
    """Something that claims to be an envelope but is invalid."""

    detail: str


def read_envelope(text: str) -> Envelope | BadEnvelope | None:
    """Read the one envelope in an answer; None: there is none; BadEnvelope: it is invalid, or several differ.

    An object that can't be read to its end is an envelope too if the part before that has the key `outcome`.
    """
    # for such short words, the search from the end is the faster one
    if text.rfind('"outcome"') < 0 and text.rfind("\\u") < 0:
        return None
    if len(text) > MAX_TEXT:
        return BadEnvelope(f"an answer of {len(text)} characters is too long to contain an envelope")
    try:
        envelopes, repair = _candidates(text)
    except _BrokenError as broken:
        return BadEnvelope(str(broken))
    if not envelopes:
        return None
    # the cheap check first, since a list that is too long makes the others slow
    if wrong := next(filter(None, map(_excess, envelopes)), None) or next(filter(None, map(flaw, envelopes)), None):
        return BadEnvelope(wrong)
    # compared as text, since 1 equals True in Python
    if len(envelopes) > 1 and len({json.dumps(candidate, sort_keys=True) for candidate in envelopes}) > 1:
        return BadEnvelope(f"{len(envelopes)} different envelopes")
    if valid := validated(envelopes[0], repair):
        return valid
    # the schema's error messages take seconds for much data, so they are made for what breaks the same rule in little
    return BadEnvelope(load.first_error("envelope", _outline(envelopes[0])) or "it is invalid")


def validated(data: dict[str, Any], repair: Repair) -> Envelope | None:
    """Return data as an envelope, checked by the rules of `schema/envelope.json`; None if it is invalid."""
    match data:
        case {"outcome": "final", "final_data": dict(final), **rest} if not rest:
            return Envelope(None, final, repair)
        case {"outcome": "ask_user", "interaction": dict(asked), **rest} if not rest and asked.keys() == _FIELDS:
            with suppress(msgspec.ValidationError):
                interaction = convert(asked, Interaction)
                named = {"choose_one": interaction.options, "fill_fields": interaction.required_fields}
                return Envelope(interaction, None, repair) if named.get(interaction.kind, True) else None
    return None


def _excess(data: dict[str, Any]) -> str | None:
    """Return which list of a question has too many entries; they are not looked at."""
    asked = data.get("interaction")
    for name, entries in asked.items() if isinstance(asked, dict) else ():
        if name in _LISTS and isinstance(entries, list) and len(entries) > MAX_NAMES:
            return f"$.interaction.{name}: {len(entries)} entries, but at most {MAX_NAMES} are allowed"
    return None


def _outline(data: dict[str, Any], inner: str = "interaction") -> dict[str, Any]:
    """Return as much of an envelope as shows which rule of the schema it breaks."""
    unknown = islice((key for key in data if key not in _KEYS), _SHOWN)
    return {key[:MAX_NAME]: _cut(key, data[key], inner) for key in (*(_KEYS & data.keys()), *unknown)}


def _cut(key: str, value: Any, inner: str = "") -> Any:
    if isinstance(value, dict):
        return _outline(value, "") if key == inner else {}
    if isinstance(value, list):
        return [_cut("", item) for item in value[: MAX_NAMES + 1]] if key in _LISTS else []
    return value[: (MAX_PROMPT if key == "prompt" else MAX_NAME) + 1] if isinstance(value, str) else value


def json_object(text: str) -> dict[str, Any] | None:
    """Return an answer that is one JSON object, with or without a code fence; None for any other answer."""
    fenced = _fenced(text)
    value = _whole(text if fenced is None else fenced)
    return value if isinstance(value, dict) and not flaw(value) else None


def _candidates(text: str) -> tuple[list[dict[str, Any]], Repair]:
    if (whole := _whole(text)) is not None:
        return _envelopes([whole]), Repair.NONE
    fenced = _fenced(text)
    if fenced is not None and (inside := _whole(fenced)) is not None:
        return _envelopes([inside]), Repair.FENCE_STRIPPED
    return _envelopes(_embedded(text)), Repair.EMBEDDED_OBJECT


def _envelopes(values: Iterable[Any]) -> list[dict[str, Any]]:
    return [value for value in values if isinstance(value, dict) and "outcome" in value]


def _fenced(text: str) -> str | None:
    """Return the content of a code fence that spans the whole text; None if there is none."""
    stripped = text.strip()
    opening = _FENCE.match(stripped)
    return stripped[opening.end() : -3] if opening and stripped.endswith("```", opening.end()) else None


def _whole(text: str) -> Any:
    try:
        return DECODER.decode(text)
    except (ValueError, RecursionError):
        return None


class _BrokenError(Exception):
    """The text holds an envelope that can't be read, or can't be searched."""


def _embedded(text: str) -> Iterator[Any]:
    """Return the outermost JSON objects and lists in a text; _BrokenError if one of them is a broken envelope.

    A list that can't be read to its end is prose around its items. Each character is scanned at most twice: as part of
    a string and as part of what is between strings.
    """
    at, left = 0, MAX_BROKEN
    broken: list[Scan] = []
    while opening := OPENING.search(text, at):
        at = opening.start()
        broken = [outer for outer in broken if at < outer.end]
        # what it is part of has been scanned; but a string may be one only because of prose before it
        after = max((outer.next_string(at) for outer in broken), default=at)
        if after > at:
            at = after
            continue
        found = scan(text, at, "outcome")
        if found.is_complete:
            yield _decoded(text[at : found.end], has_key=found.has_key)
            at = found.end
            continue
        if found.has_key:
            raise _BrokenError(_why_broken(text, found))
        for start, end in found.items:
            yield _decoded(text[start:end], has_key=True)
        left -= 1
        if left < 0:
            raise _BrokenError("the answer contains too many objects that aren't valid JSON")
        broken.append(found)
        at += 1


def _decoded(text: str, *, has_key: bool) -> Any:
    try:
        return DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        if not has_key:
            return None
        deep = isinstance(error, RecursionError)
        raise _BrokenError("data nested too deep" if deep else "a number that is too long") from error


def _why_broken(text: str, found: Scan) -> str:
    rest = text[found.end :]
    if _CUT_OFF.fullmatch(rest):
        return "the envelope is cut off"
    return f"the envelope isn't valid JSON: it breaks off before {rest.rstrip()[:20]!r}, at character {found.end + 1}"
