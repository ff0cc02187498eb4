"""Handmade observations of good runs on the server, for tests to change."""

import json
from typing import Any

from tests.probes import turns as t
from turngate_probes.harness.driver import ANSWER, QUESTION
from turngate_probes.harness.observations import Observation, ServerCall, Turn
from turngate_probes.harness.server_calls import RACERS, REPEATS
from turngate_probes.server_level.cases import MALFORMED
from turngate_probes.stub_model import Exchange

RUN = "/v1/runs/1"
ARGV = ("exec", "--json", "-")
HANDLE = {"engine": "codex", "handle_type": "session_id", "handle_value": t.SESSION, "created_at_turn": 1}
WAITING = {
    "state": "waiting_user",
    "error": None,
    "final_data": None,
    "engine_session_handle": HANDLE,
    "interactive_profile": {"kind": "resumable", "reason": "it can resume", "session_timeout_sec": 120},
}
PENDING = {**json.loads(QUESTION)["interaction"], "interaction_id": "q1", "asked_at": "2026-01-01T00:00:00Z"}


def call(name: str, answer: Any, status: int = 200, sent: Any = None) -> ServerCall:
    """Return a request to the server: a POST if it has a body, else a GET."""
    return ServerCall(name, "POST" if sent else "GET", RUN, status, sent, answer)


def asked(name: str, **changes: Any) -> ServerCall:
    """Return a GET of the run while it waits, with the given changes to the response."""
    return call(name, WAITING | changes)


def question(name: str, **changes: Any) -> ServerCall:
    """Return a GET of the run that shows its question, with the given changes."""
    return call(name, {"state": "waiting_user", "pending": PENDING | changes})


def reply(name: str, status: int = 202, answer: Any = None) -> ServerCall:
    """Return a reply; its nonce is that of the turn of the same name."""
    sent = {"interaction_id": "q1", "response": f"blue {t.nonce(name)}"}
    return call(name, answer or {"links": {}}, status, sent)


def ended(name: str, state: str = "succeeded", code: str | None = None, data: Any = None) -> ServerCall:
    """Return a GET of the run after it has ended."""
    error = {"code": code, "detail": "because"} if code else None
    return call(name, WAITING | {"state": state, "error": error, "final_data": data})


def turn(name: str, *carries: str, text: str = QUESTION, **changes: Any) -> Turn:
    """Return a turn on the server; it is a resumed turn if it carries earlier nonces."""
    usual: dict[str, Any] = {"argv": ("codex", *ARGV), "own_arguments": ARGV, "scripted": text}
    if carries:
        return t.resumed(name, *carries, **{"stdout": t.printed(text=text)} | usual | changes)
    stdout = changes.pop("stdout", t.printed(text=text))
    return t.turn(name, stdout, **usual | changes)


def refusing(name: str) -> tuple[Exchange, ...]:
    """Return the requests of a turn whose model backend refused."""
    return (t.exchange(t.nonce(name), reply="refuse 401"),)


def loop() -> list[Observation]:
    """Return the observations of a run that succeeds."""
    return [
        asked("loop/asked"),
        question("loop/question"),
        asked("loop/restarted"),
        question("loop/question-again"),
        reply("loop/reply"),
        ended("loop/ended", data=json.loads(ANSWER)["final_data"]),
        call("loop/ended-turns", {"turns": [{}, {}]}),
        turn("loop/turn-1"),
        turn("loop/turn-2", "loop/turn-1", text=ANSWER),
    ]


def one_reply() -> list[Observation]:
    """Return ten replies at once, then one reply sent three times; turns carry the nonces of accepted replies."""
    raced = [reply(f"one-reply/reply-{i}", 202 if i == 1 else 409) for i in range(1, RACERS + 1)]
    turns = [{"turn_index": i} for i in (1, 2, 3)]
    return [
        *raced,
        *(reply(f"one-reply/repeated-{i}") for i in range(1, REPEATS + 1)),
        turn("one-reply/turn-1"),
        turn("one-reply/turn-2", "one-reply/turn-1", "one-reply/reply-1"),
        turn("one-reply/turn-3", "one-reply/turn-2", "one-reply/repeated-1", text=ANSWER),
        ended("one-reply/ended"),
        call("one-reply/ended-turns", {"turns": turns}),
    ]


def bad_ways() -> list[Observation]:
    """Return all cases that must fail, each failing as expected."""
    resume, failure = "SESSION_RESUME_FAILED", "engine-failure/turn-1"
    return [
        turn("dead-handle/turn-1"),
        reply("dead-handle/reply"),
        ended("dead-handle/ended", "failed", resume),
        turn("missing-handle/turn-1", stdout=t.printed("")),
        ended("missing-handle/ended", "failed", resume),
        turn(failure, requests=refusing(failure)),
        ended("engine-failure/ended", "failed", "ENGINE_FAILED"),
        turn("bad-envelope/turn-1", text=MALFORMED),
        ended("bad-envelope/ended", "failed", "ENVELOPE_INVALID"),
        turn("cancel/turn-1"),
        call("cancel/cancel", {"state": "running"}, 202, {}),
        ended("cancel/ended", "canceled"),
    ]


def good(*spoilt: Observation) -> list[Observation]:
    """Return all observations, with those given replacing others of the same name."""
    instead = {item.name: item for item in spoilt}
    return [instead.get(item.name, item) for item in (*loop(), *one_reply(), *bad_ways())]
