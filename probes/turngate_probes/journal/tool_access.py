"""Tool access: the tools offered to the model in each mode, and the outcome of a call."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from msgspec import Struct, field

from turngate.contract.launch import ToolSearch
from turngate.contract.verdict import Seconds
from turngate.model import HUNG
from turngate.sanitize import bounded
from turngate_probes.journal.events import TurnEvent
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
_FIRST_WORD = re.compile(r"^\W*([\w.-]+)", re.MULTILINE)

CallOutcome: TypeAlias = Literal["executed", "denied", "hangs", "failed", "dropped"]


class ToolCallResult(Struct, frozen=True, forbid_unknown_fields=True):
    """The outcome of a tool call. `denied`: the model got a refusal; `dropped`: nothing, and the turn succeeded."""

    tool: str
    outcome: CallOutcome
    exit_code: int | None
    seconds: Seconds
    reported: str | None = field(name="told")


class ModeToolAccess(Struct, frozen=True, forbid_unknown_fields=True):
    """The names of the tools offered to the model in a mode, those it must search for, and what a call does."""

    tools: tuple[str, ...] | None
    call: ToolCallResult | None
    searched: tuple[str, ...] = ()


class ToolAccess(Struct, frozen=True, forbid_unknown_fields=True):
    """The tools of each mode (None: not tested)."""

    interactive: ModeToolAccess | None
    auto: ModeToolAccess | None

    def modes(self) -> Iterator[tuple[str, ModeToolAccess]]:
        """Return the observed modes by name."""
        return ((mode, access) for mode in TURNS if (access := getattr(self, mode)))


def reported(requests: Iterable[Exchange]) -> str | None:
    """Return the engine's report to the model about the tool that it had asked for; None if there was none."""
    called = False
    for request in requests:
        if called and (words := _last_words(request.body)):
            return words
        called = called or request.reply.startswith("tool_call ")
    return None


def searched(requests: Iterable[Exchange], search: ToolSearch | None) -> list[str]:
    """Return the tools that requests only name, for the model to find by a search."""
    if search is None:
        return []
    offering = (request for request in requests if search.tool in request.tools)
    texts = (text for request in offering for text in _texts(_document(request.body)))
    lists = (found["names"] for text in texts for found in re.finditer(search.pattern, text))
    return sorted({name for names in lists for name in _FIRST_WORD.findall(names)})


def tool_access(turns: Iterable[TurnEvent]) -> ToolAccess | None:
    """Return the tool access of a release, from its turns; None if it was not observed."""
    by_step = {(turn.case, turn.step): turn for turn in turns}
    by_mode = {mode: _mode(*(by_step.get(step) for step in steps)) for mode, steps in TURNS.items()}
    return ToolAccess(**by_mode) if any(by_mode.values()) else None


class ToolAccessRow(NamedTuple):
    """A row of a table: how many tools a mode offers, which of them only this mode offers, the outcome of a call."""

    mode: str
    offered: str
    alone: str
    call: str
    code: str


def rows(access: ToolAccess | None) -> Iterator[ToolAccessRow]:
    """Return the rows of a table; none if no call was observed."""
    if access is None or not any(mode.call for _, mode in access.modes()):
        return
    acting, waiting = difference(access)
    alone = {
        "auto": _named(acting),
        "interactive": _named(waiting),
    }
    for name, mode in access.modes():
        call = mode.call
        count = "?" if mode.tools is None else str(len(mode.tools))
        code = "" if not call else "none" if call.exit_code is None else str(call.exit_code)
        yield ToolAccessRow(name, count, alone[name], f"{call.tool}: {call.outcome}" if call else "not observed", code)


def difference(access: ToolAccess | None) -> tuple[list[str], list[str]]:
    """Return the tools offered only in mode auto, and those offered only in mode interactive.

    There are none if the tools of one mode were not observed.
    """
    tools = {name: set(mode.tools) for name, mode in (access.modes() if access else ()) if mode.tools is not None}
    if len(tools) < len(TURNS):
        return [], []
    return sorted(tools["auto"] - tools["interactive"]), sorted(tools["interactive"] - tools["auto"])


def _named(tools: Sequence[str]) -> str:
    names = [bounded(tool, LONGEST_NAME) for tool in tools[:MOST_NAMED]]
    more = [f"{len(tools) - MOST_NAMED} more"] if len(tools) > MOST_NAMED else []
    return ", ".join([*names, *more])


def _mode(shows: TurnEvent | None, calls: TurnEvent | None) -> ModeToolAccess | None:
    shown = shows or calls
    tools, call = _offered(shown), _call(calls)
    return None if tools is None and call is None else ModeToolAccess(tools, call, shown.searched if shown else ())


def _offered(turn: TurnEvent | None) -> tuple[str, ...] | None:
    """Return the tools of the request that offers most; the engine makes other requests for small tasks."""
    if turn is None or not turn.requests:
        return None
    offers: list[tuple[str, ...]] = [request.tools for request in turn.requests]
    widest = max(offers, key=len)
    return tuple(sorted(widest))


def _call(turn: TurnEvent | None) -> ToolCallResult | None:
    # a recording does not show whether the tool has acted
    if turn is None or turn.acted is None:
        return None
    replies = (request.reply for request in turn.requests or ())
    tool = next((reply.partition(" ")[2] for reply in replies if reply.startswith("tool_call ")), None)
    if tool is None:
        return None
    return ToolCallResult(tool, _outcome(turn), turn.exit_code, turn.seconds, turn.reported)


def _outcome(turn: TurnEvent) -> CallOutcome:
    if turn.acted:
        return "executed"
    if turn.ended in HUNG:
        return "hangs"
    if turn.reported is not None:
        return "denied"
    return "failed" if turn.exit_code != 0 else "dropped"


def _last_words(body: bytes) -> str | None:
    """Return the texts in the last entry of a request's conversation, in any protocol."""
    document = _document(body)
    held = [document[key] for key in CONVERSATIONS if isinstance(document, dict) and document.get(key)]
    entries = held[0][-AT_THE_END:] if held and isinstance(held[0], list) else []
    # engines make other requests in between, and some add a remark to the results
    results = [entry for entry in entries if any(sign in json.dumps(entry) for sign in RESULTS)]
    text = " ".join(" ".join(_texts(results[-1] if results else None)).split())
    return bounded(text, LONGEST) if results else None


def _document(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return None


def _texts(value: Any, key: str = "") -> Iterator[str]:
    if isinstance(value, str) and key in ("", "text", "content", "output", "error", "response"):
        yield value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _texts(item, name)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item, key)
