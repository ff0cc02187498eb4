"""The price of not acting unasked: the tools that the model is offered in each mode, and what becomes of a call."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from turngate.sanitize import bounded
from turngate_probes.stub_model import Exchange

CASE = "tool-call"
# the turns of each mode: one that says which tools are offered, and the one in which the model asks for a tool
TURNS = {"interactive": (("main", "first"), (CASE, "first")), "auto": (("auto", "first"), (CASE, "auto"))}
CONVERSATIONS = ("input", "messages", "contents")
RESULTS = ('_output"', '"tool_result"', '"functionResponse"', '"role": "tool"')
AT_THE_END = 3
LONGEST = 400
MOST_NAMED = 8
LONGEST_NAME = 60

Event = Mapping[str, Any]
ToolAccess = dict[str, Any]


def told(requests: Iterable[Exchange]) -> str | None:
    """Return what the model was told of the tool that it had asked for; None if it was told nothing."""
    called = False
    for request in requests:
        if called and (said := _last_words(request.body)):
            return said
        called = called or request.reply.startswith("tool_call ")
    return None


def tool_access(events: Iterable[Event]) -> ToolAccess | None:
    """Read the price from the turns in a release's journal; None if none of them shows it."""
    turns = {(each["case"], each["step"]): each for each in events if each["event"] == "turn"}
    found = {mode: _mode(*(turns.get(name) for name in names)) for mode, names in TURNS.items()}
    return found if any(found.values()) else None


class ToolAccessRow(NamedTuple):
    """A line of a table: how many tools a mode offers, which of them it `alone` does, and what becomes of a call."""

    mode: str
    offered: str
    alone: str
    call: str
    code: str


def rows(price: ToolAccess | None) -> Iterator[ToolAccessRow]:
    """Return the lines of a table; there are none where no call was seen."""
    seen = [found for found in (price or {}).values() if found and found["call"]]
    acting, held = difference(price)
    alone = {"auto": _named("only with auto-approve", acting), "interactive": _named("only without", held)}
    for mode, found in (price or {}).items() if seen else ():
        if found:
            call = found["call"]
            count = "?" if found["tools"] is None else str(len(found["tools"]))
            code = "" if not call else "none" if call["exit_code"] is None else str(call["exit_code"])
            became = f"{call['tool']}: {call['outcome']}" if call else "not seen"
            yield ToolAccessRow(mode, count, alone.get(mode, ""), became, code)


def difference(price: ToolAccess | None) -> tuple[list[str], list[str]]:
    """Return the tools that only an engine is offered that acts unasked, and those that only one is that does not.

    There are none where the tools of one mode were not seen.
    """
    found = [((price or {}).get(mode) or {}).get("tools") for mode in TURNS]
    held = [set(tools) for tools in found if tools is not None]
    return (sorted(held[1] - held[0]), sorted(held[0] - held[1])) if len(held) == len(TURNS) else ([], [])


def _named(what: str, tools: Sequence[str]) -> str:
    shown = [bounded(tool, LONGEST_NAME) for tool in tools[:MOST_NAMED]]
    more = [f"{len(tools) - MOST_NAMED} more"] if len(tools) > MOST_NAMED else []
    return f"{what}: {', '.join([*shown, *more])}" if tools else ""


def _mode(shows: Event | None, calls: Event | None) -> ToolAccess | None:
    tools, call = _offered(shows or calls), _call(calls)
    return None if tools is None and call is None else {"tools": tools, "call": call}


def _offered(turn: Event | None) -> list[str] | None:
    """Return the tools of the request that offers most; others are of small tasks beside the agent's own."""
    requests = (turn or {}).get("requests")
    most: list[str] = max((each["tools"] for each in requests or ()), key=len, default=[])
    return sorted(most) if requests else None


def _call(turn: Event | None) -> ToolAccess | None:
    requests = (turn or {}).get("requests")
    asked = [each["reply"].partition(" ")[2] for each in requests or () if each["reply"].startswith("tool_call ")]
    # of a recording nobody knows whether the tool has acted
    if turn is None or not asked or "acted" not in turn:
        return None
    return {
        "tool": asked[0], "outcome": _outcome(turn), "exit_code": turn["exit_code"], "seconds": turn["seconds"],
        "told": turn.get("told"),
    }  # fmt: skip


def _outcome(turn: Event) -> str:
    """Return what became of a tool call: executed, hangs, failed, denied, or nothing."""
    if turn.get("acted"):
        return "executed"
    if turn["ended"] not in ("exit", "lingered"):
        return "hangs"
    if turn.get("told") is not None:
        return "denied"
    return "failed" if turn["exit_code"] != 0 else "dropped"


def _last_words(body: bytes) -> str | None:
    """Return the texts in the last entry of a request's conversation, in whichever protocol."""
    try:
        document = json.loads(body)
    except ValueError:
        return None
    held = [document[key] for key in CONVERSATIONS if isinstance(document, dict) and document.get(key)]
    entries = held[0][-AT_THE_END:] if held and isinstance(held[0], list) else []
    # other requests run beside the agent's own, and some engines add a remark of their own
    results = [each for each in entries if any(sign in json.dumps(each) for sign in RESULTS)]
    said = " ".join(" ".join(_texts(results[-1] if results else None)).split())
    return bounded(said, LONGEST) if results else None


def _texts(value: Any, key: str = "") -> Iterator[str]:
    if isinstance(value, str) and key in ("", "text", "content", "output", "error", "response"):
        yield value
    elif isinstance(value, dict):
        for name, each in value.items():
            yield from _texts(each, name)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each, key)
