"""Converting turns, command outputs and results to journal events, with text cut and local paths replaced."""

import json
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from tests.probes import turns as t
from turngate.contract import load
from turngate.contract.clauses import Result
from turngate.contract.load import catalogue
from turngate.contract.verdict import ClauseResult
from turngate_probes.harness.observations import CommandOutput, Turn
from turngate_probes.journal.events import ClauseEvent
from turngate_probes.journal.journal import (
    MAX_ARGUMENT,
    MAX_EXCERPT,
    MAX_REQUESTS,
    MOST_KEYS,
    keys_of,
    names,
    seen_event,
    usages,
)

CLAP = """Run Codex non-interactively

Usage: codex exec [OPTIONS] [PROMPT] [COMMAND]

Commands:
  resume  Resume a previous session, see also --last and 3-way merges

Options:
  -c, --config <key=value>   Override, such as --config a=b
  -m, --model=<MODEL>
      --json
  -h
"""
PLACES = {"/box": "<sandbox>", "/opt/codex": "codex"}


def reported(item: Turn | CommandOutput, places: Mapping[str, str] = PLACES) -> Any:
    """Return an observation's event as it is written to a journal."""
    return json.loads(msgspec.json.encode(seen_event("codex@1", item, places)))


def test_a_turn_is_told() -> None:
    """The event of a turn has its name, command, streams, requests, session id and outcome."""
    event = reported(t.resumed("main/again", "main/first", leftovers=(t.leftover("node", "x"),)))
    assert (event["case"], event["step"]) == ("main", "again")
    assert event["argv"] == ["codex", "exec", "--json", "-"]
    assert (event["exit_code"], event["ended"], event["seconds"], event["cpu_seconds"]) == (0, "exit", 21.0, 0.5)
    assert (event["handle"], event["outcome"], event["failure_reason"]) == (t.SESSION, "ask_user", None)
    assert event["leftovers"] == ["node x"]
    assert event["request_count"] == 1
    assert event["requests"][0]["nonces"] == [t.nonce("main/first"), t.nonce("main/again")]
    assert event["requests"][0]["last_user_text"] == f"Ask me. {t.nonce('main/again')}"


def test_places_of_the_machine_are_replaced() -> None:
    """Local paths are replaced by placeholders everywhere in a turn's event."""
    requests = (t.exchange(path="/box/v1", texts=("in /box/work",)),)
    failed = t.printed(text=None, failure="no /box/home")
    turn = t.turn(
        "main/first",
        failed,
        argv=("/opt/codex", "--cd", "/box/work"),
        cwd="/box/work",
        stderr=b"/box/tmp",
        requests=requests,
    )
    text = json.dumps(reported(turn))
    assert "/box" not in text
    assert "/opt" not in text
    assert text.count("<sandbox>") == 7


def test_what_is_asked_of_a_model_is_kept_before_look_ups() -> None:
    """However many look-ups an engine makes first, the journal has its request to the model, in its place."""
    look_up = t.exchange(texts=(), reply="refuse 404")
    event = reported(t.turn("main/first", requests=(*[look_up] * 50, t.exchange(texts=("hi",)))), {})
    assert [request["last_user_text"] for request in event["requests"]] == [*[""] * (MAX_REQUESTS - 1), "hi"]


def test_long_matter_is_bounded() -> None:
    """Long arguments, streams and request lists are cut, and their full size is recorded."""
    turn = t.turn(
        "main/first", b"x" * 100_000, argv=("codex", "y" * 1000), requests=(t.exchange(texts=("z" * 9999,)),) * 50
    )
    event = reported(turn, {})
    assert event["argv"][1] == "y" * MAX_ARGUMENT + "… (1000 characters)"
    assert event["stdout"]["bytes"] == 100_000
    assert len(event["stdout"]["excerpt"]) < MAX_EXCERPT + 100
    assert (len(event["requests"]), event["request_count"]) == (MAX_REQUESTS, 50)
    assert len(event["requests"][0]["last_user_text"]) == MAX_ARGUMENT


def test_bytes_that_are_no_text_are_shown() -> None:
    """Bytes that are not UTF-8 are written as escapes."""
    assert reported(t.turn("main/first", b"\xff{}"), {})["stdout"]["excerpt"] == "\\xff{}"


def test_unwatched_requests_are_none() -> None:
    """A recording without requests has None, a turn that sent none an empty list."""
    assert reported(t.turn("main/first", requests=None), {})["requests"] is None
    assert reported(t.turn("main/first", requests=()), {})["requests"] == []


def test_a_page_is_told() -> None:
    """The event of a command without a turn has only the command and its streams."""
    event = reported(t.page("static/version", "codex-cli 0.169.0", exit_code=3))
    assert (event["case"], event["step"], event["exit_code"]) == ("static", "version", 3)
    assert event["stdout"] == {"bytes": 17, "excerpt": "codex-cli 0.169.0"}
    assert "requests" not in event


def test_a_result_is_told() -> None:
    """The event of a clause contains its complete result."""
    result = ClauseResult.of(catalogue()["stdin.open"], Result.DEVIATES, "it hung", ("stdin-open/first",))
    event = ClauseEvent.about("codex@1", result)
    assert event.clause_result() == result
    assert msgspec.to_builtins(event) == {
        "event": "clause",
        "release": "codex@1",
        "at": "",
        "id": "stdin.open",
        "level": "hermetic",
        "severity": "degraded",
        "result": "deviates",
        "detail": "it hung",
        "action": "",
        "stale": False,
        "evidence": ("stdin-open/first",),
        "needs": (),
        "reason": None,
    }


def test_help_pages_are_read_by_their_options() -> None:
    """From help output only the options and the words that the contract looks for are read."""
    page = t.page("static/help-1", CLAP)
    assert names(page, t.CODEX) == ("--config", "--json", "--last", "--model", "-c", "-h", "-m", "resume")
    assert names(t.page("static/version", CLAP), t.CODEX) == ()


CLAP_CHOICES = """
  -m, --model <MODEL>
          Model
          [possible values: a, b]

      --json
          JSON
"""
COMMANDER = """
  -m, --model <model>      Model
  -c, --continue           Continue
  --tools <tools...>       Tools, see also
                           --continue and
                           --output.
  --output <format>        Format (choices: "text", "json")
"""
YARGS = """
  -m, --model    Model  [string]
  -y, --yolo     Accept all?  [boolean] [default: false]
  -o, --output   The format.  [string] [choices: "text",
                 "json"]
"""
ARGPARSE = """usage: vibe [-h] [--agent NAME]

  --agent NAME           Agent
  --output {text,json}
"""


@pytest.mark.parametrize(
    "page, options",
    [
        (CLAP_CHOICES, ["--json", "--model <MODEL> [possible values: a, b]"]),
        (
            COMMANDER,
            ["--continue", "--model <model>", '--output <format> (choices: "text", "json")', "--tools <tools...>"],
        ),
        (YARGS, ["--model [string]", '--output [string] [choices: "text", "json"]', "--yolo [boolean]"]),
        (ARGPARSE, ["--agent NAME", "--output {text,json}"]),
    ],
)
def test_options_are_read_with_what_they_take(page: str, options: list[str]) -> None:
    """Each option of a help page is listed once, with its value as the page shows it, whatever parser printed it."""
    assert list(usages(t.page("static/help-1", page), t.CODEX)) == options
    assert usages(t.page("static/version", page), t.CODEX) == ()


def test_requests_are_kept_by_the_names_of_their_headers() -> None:
    """Values of headers, which may be secrets, are left out."""
    turn = t.turn("main/first", requests=(t.exchange(headers={"authorization": "Bearer x", "accept": "*/*"}),))
    assert reported(turn, {})["headers"] == ["accept", "authorization"]


def test_turns_are_read_by_kinds_and_keys() -> None:
    """Each key path is listed with its record's kind, without any values."""
    stdout = b'{"type": "turn.completed", "usage": {"parts": [{"count": 1}, {"more": {"x": null}}]}}\n'
    kinds, paths = keys_of(t.turn("main/first", stdout), t.CODEX)
    assert kinds == ("turn.completed",)
    below = ("", ".parts", ".parts[].count", ".parts[].more", ".parts[].more.x")
    assert paths is not None
    assert list(paths) == ["turn.completed: type", *(f"turn.completed: usage{path}" for path in below)]
    assert list(paths.values()) == ["string", "object", "array", "number", "object", "null"]


def test_documents_have_keys_alone() -> None:
    """Records without a kind have only key paths."""
    gemini = load.contract("gemini").at("0.61.0")
    if gemini.events.field is None:
        _, paths = keys_of(t.turn("main/first", b'{"session_id": "a", "stats": {"models": {}}}'), gemini)
        assert paths is not None
        assert "stats.models" in paths


def test_too_many_keys_are_not_listed_at_all() -> None:
    """A part of a list would show the keys that are missing from it as gone."""
    usage = {f"key{number:04}": 1 for number in range(MOST_KEYS)}
    stdout = json.dumps({"type": "turn.completed", "usage": usage}).encode() + b"\n"
    assert keys_of(t.turn("main/first", stdout), t.CODEX) == (None, None)
