"""Scans the JSON object or list at a place in a text, as far as it can be read."""

import json
import re
from bisect import bisect_right
from operator import itemgetter

from msgspec import Struct

# what may begin an object, or a list that isn't empty
OPENING = re.compile(r"""\{[ \t\n\r]*+"|\[[ \t\n\r]*+["{\[0-9tfnNI-]""")
_STRING = r'"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4}))*+"'
_NUMBER = r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][-+]?[0-9]++)?+"
_TOKEN = re.compile(
    rf"[ \t\n\r]*+(?:(?P<text>{_STRING})|(?P<mark>[][}}{{:,])|{_NUMBER}|-?Infinity|NaN|true|false|null)"
)
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
    """What a scan found: where the readable part ends, and whether that is the end of the object or list.

    `has_key` says that the readable part of an object has the key in question, not counting objects within it.
    `strings` are the start and end of each string that may hold another opening, in order.
    """

    end: int
    is_complete: bool
    has_key: bool
    strings: tuple[tuple[int, int], ...]

    def next_string(self, at: int) -> int:
        """Return `at` if it is in one of `strings`, else where the next one begins; `end` if there is none."""
        following = bisect_right(self.strings, at, key=itemgetter(0))
        if following and at < self.strings[following - 1][1]:
            return at
        return self.strings[following][0] if following < len(self.strings) else self.end


def scan(text: str, at: int, key: str) -> Scan:
    """Scan the object or list that begins at `at`; `key` is the key to look for. The time is linear."""
    open_, awaits = [text[at]], "first key" if text[at] == "{" else "first item"
    has_key = is_named = False
    strings: list[tuple[int, int]] = []
    end = at + 1
    while token := _TOKEN.match(text, end):
        kind, word = token["mark"] or "plain", token["text"]
        if word is not None:
            kind = "text"
            is_named = len(open_) == 1 and awaits in ("first key", "key") and _is(word, key)
        step = _STEPS[awaits].get(kind)
        if step is None:
            break
        end = token.end()
        if word is not None and ("{" in word or "[" in word):
            strings.append(token.span("text"))
        has_key |= is_named and kind == ":"
        if step == "close":
            open_.pop()
        elif kind in ("{", "["):
            open_.append(kind)
        if not open_:
            return Scan(end, is_complete=True, has_key=has_key, strings=tuple(strings))
        awaits = f"after in {open_[-1]}" if step in ("close", "after") else step
    if blank := _BLANK.match(text, end):
        end = blank.end()
    # a text that is cut off right behind the key
    has_key |= is_named and awaits == "colon" and end == len(text)
    return Scan(end, is_complete=False, has_key=has_key, strings=tuple(strings))


def _is(word: str, key: str) -> bool:
    """Whether a JSON string means `key`."""
    return word[1:-1] == key or ("\\u" in word and json.loads(word) == key)
