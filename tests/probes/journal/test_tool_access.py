"""Tools available per approval mode, read from turns in which the model calls a tool."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from rich.console import Console

from tests.probes import engines
from tests.probes.report import journals as j
from tests.probes.report import samples
from tests.probes.turns import CODEX, exchange
from tests.tables import each
from turngate.contract.launch import ToolSearch
from turngate_probes.journal.events import TurnEvent
from turngate_probes.journal.journal import seen_event
from turngate_probes.journal.tool_access import (
    ModeToolAccess,
    ToolAccess,
    ToolCallResult,
    difference,
    reported,
    rows,
    searched,
    tool_access,
)
from turngate_probes.report.lines import print_line
from turngate_probes.report.markdown import markdown
from turngate_probes.report.page import page
from turngate_probes.report.release_view import view
from turngate_probes.report.text import report_lines


def asked(*faults: str, folder: Path) -> ToolAccess:
    """Run the tool call in both modes on a fake engine, and return the tool access."""
    observed = engines.play(engines.install(folder, *faults), folder, "main", "auto", "tool-call").observed
    events = [seen_event("codex@1", turn, {}) for turn in observed.turns.values()]
    access = tool_access([event for event in events if isinstance(event, TurnEvent)])
    assert access
    return access


def outcomes(access: ToolAccess) -> list[str]:
    """Return the outcome of the tool call in each mode."""
    return [mode.call.outcome for _, mode in access.modes() if mode.call]


@pytest.mark.long
def test_a_tool_is_denied_where_the_user_is_in_the_loop_and_runs_in_mode_auto(tmp_path: Path) -> None:
    """A tool call is denied in interactive mode and executed in auto mode."""
    access = asked(folder=tmp_path)
    assert access.interactive
    assert access.auto
    assert (access.interactive.tools, access.auto.tools) == (("exec_command",), ("apply_patch", "exec_command"))
    calls = [mode.call for _, mode in access.modes()]
    assert [(call.outcome, call.reported, call.exit_code) for call in calls if call] == [
        ("denied", "rejected by the sandbox", 0),
        ("executed", "done", 0),
    ]
    assert difference(access) == (["apply_patch"], [])
    assert list(rows(access)) == [
        ("interactive", "1", "", "exec_command: denied", "0"),
        ("auto", "2", "apply_patch", "exec_command: executed", "0"),
    ]


@pytest.mark.long
def test_a_tool_that_runs_unasked_is_seen_on_disk(tmp_path: Path) -> None:
    """A tool that runs unasked is found by the file it creates, separately in each turn."""
    access = asked("acts-unasked", folder=tmp_path)
    assert outcomes(access)[0] == "executed"


@pytest.mark.long
def test_an_engine_that_waits_for_somebody_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that waits for approval is stopped at its deadline and counts as hanging."""
    monkeypatch.setattr("turngate_probes.harness.cases.TOOL_PATIENCE", 0.5)
    access = asked("hangs-at-tools", folder=tmp_path)
    assert outcomes(access) == ["hangs", "hangs"]


def event(**changes: Any) -> Any:
    """Return a turn in which the model calls a tool."""
    request = {**j.REQUEST, "reply": "tool_call exec_command", "tools": ["exec_command"]}
    usual: dict[str, Any] = {"case": "tool-call", "requests": [request], "acted": False, "told": None}
    return j.turn(**usual | changes)


@each(
    "changes, outcome",
    [
        ({"acted": True, "told": "no"}, "executed"),
        ({"ended": "timeout", "exit_code": None}, "hangs"),
        ({"told": "denied"}, "denied"),
        ({"told": ""}, "denied"),
        ({"exit_code": 1}, "failed"),
        ({}, "dropped"),
    ],
)
def test_what_became_of_a_call(changes: dict[str, Any], outcome: str) -> None:
    """The observed effect of a tool call takes precedence over what the engine reports."""
    access = tool_access([event(**changes)])
    assert access
    assert outcomes(access) == [outcome]
    assert access.auto is None


def test_tools_that_requests_only_name_are_found_by_a_search() -> None:
    """They are named in a list, one a line, in a request that offers the search."""
    search = ToolSearch("Find", r"(?s)deferred:\n(?P<names>(?:- \w+[^\n]*\n)+)")
    body = json.dumps({"messages": [{"content": [{"text": "deferred:\n- a: x\n- b\n\nc\n"}]}]}).encode()
    asked = [exchange(tools=("Find",), body=body), exchange(tools=("Find",), body=b"?"), exchange(tools=(), body=body)]
    assert searched(asked[:2], search) == ["a", "b"]
    assert searched(asked, None) == searched(asked[2:], search) == []
    shown = tool_access([event(searched=["a"])])
    assert shown
    assert [mode.searched for _, mode in shown.modes()] == [("a",)]


def test_without_a_call_there_is_no_table() -> None:
    """Without a tool call, or in an old journal, there are no rows."""
    assert tool_access([]) is None
    assert list(rows(None)) == []
    shown = tool_access([event(requests=[{**j.REQUEST, "reply": "text", "tools": ["a"]}])])
    assert shown == ToolAccess(ModeToolAccess(("a",), None), None)
    assert list(rows(shown)) == []
    assert tool_access([event(requests=None)]) is None


def test_what_became_of_a_recorded_call_is_unknown() -> None:
    """In a recording the outcome of a tool call is unknown."""
    assert tool_access([event(acted=None)]) == ToolAccess(ModeToolAccess(("exec_command",), None), None)


def offered(interactive: list[str] | None, auto: list[str] | None) -> ToolAccess:
    """Return the tool access with these tools in each mode."""
    call = ToolCallResult("write", "denied", 0, 1.0, "no")
    modes = (ModeToolAccess(None if tools is None else tuple(tools), call) for tools in (interactive, auto))
    return ToolAccess(*modes)


def test_the_tools_of_one_mode_alone_are_named() -> None:
    """Tools offered in only one mode are named, if both modes were observed."""
    assert [row.alone for row in rows(offered(["ask", "read"], ["read", "write"]))] == [
        "ask",
        "write",
    ]
    assert [row.alone for row in rows(offered(None, ["write"]))] == ["", ""]
    named = list(rows(offered([], [f"{i:02}{'x' * 900}" for i in range(40)])))[1].alone
    assert named.endswith(", 32 more")
    assert len(named) < 1000


@pytest.mark.parametrize("kind", ["text", "markdown", "page"])
def test_every_table_of_tool_access_names_them(kind: str) -> None:
    """Every report format names the tools that are offered only in one mode, in a column of their own or a sentence."""
    report = samples.mixed()
    first = structs.replace(report.releases[0], tool_access=offered(["read"], ["read", "write_file"]))
    report = structs.replace(report, releases=(first, *report.releases[1:]))
    console = Console(file=io.StringIO(), width=500)
    for depth, line in report_lines(view(report), Path("journal")):
        print_line(console, depth, line)
    assert isinstance(console.file, io.StringIO)
    rendered = {"text": console.file.getvalue(), "markdown": markdown(view(report)), "page": page(view(report))}[kind]
    named = {"text": "(only in this mode: write_file)", "markdown": "| write&#95;file |", "page": ">write_file<"}
    assert named[kind] in rendered.replace("<wbr>", "")


@pytest.mark.parametrize(
    "document",
    [
        {"input": [{"role": "user"}, {"type": "function_call_output", "output": "no way"}]},
        {"messages": [{"role": "tool", "content": "no way"}, {"role": "user", "content": "by the way"}]},
        {"messages": [{"role": "user", "content": [{"type": "tool_result", "content": [{"text": "no way"}]}]}]},
        {"contents": [{"parts": [{"functionResponse": {"response": {"error": "no way"}}}]}]},
    ],
)
def test_what_the_model_is_told_is_read_in_every_protocol(document: Any) -> None:
    """The tool's result is read from the first later request that contains one."""
    call = exchange(reply="tool_call exec_command", body=json.dumps(document).encode())
    beside = exchange(body=b'{"messages": [{"role": "user", "content": "a title, please"}]}')
    result = exchange(body=json.dumps(document).encode())
    assert reported([call, beside, result]) == "no way"
    assert reported([result]) is None
    assert reported([call, exchange(body=b"torn")]) is None
    assert CODEX.hermetic.tool_call
