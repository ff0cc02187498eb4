"""Scans the JSON object or list at a place in a text, as far as it can be read."""

import json
import re
from bisect import bisect_right
from itertools import chain, takewhile
from operator import itemgetter

from msgspec import Struct, field

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
