"""Tests of requests as the store keeps them, which earlier and later releases read."""

import json
from pathlib import Path
from typing import Any

import pytest

from turngate import Mode
from turngate.decoding import convert
from turngate_reference.server.requests import IdempotencyKey, ReplyRequest, RunLaunch, RunRequest
from turngate_reference.server.store import runs
from turngate_reference.server.store.database import Store

BODY = {"engine": "codex", "prompt": "null"}
DEFAULTS = {"execution_mode": "auto", "engine_options": [], "session_timeout_sec": 1200}
FULL = {
    "engine": "codex",
    "prompt": "paint",
    "execution_mode": "interactive",
    "engine_options": ["--model", "x"],
    "session_timeout_sec": 60,
    "model": "null",
    "output_schema": {"type": "object", "minProperties": 1.0},
    "skill": "true",
    "workspace": "a",
    "interactive_profile": "resumable",
    "allow_file_marks": True,
    "trusted_workspace": True,
    "unsafe_allowed": True,
}


def stored(folder: Path, text: str) -> tuple[RunLaunch, str]:
    """Return a launch read from a row whose JSON is `text`, and the JSON that this version writes for it."""
    store = Store(folder / "turngate.db")
    first = RunLaunch(engine="codex", prompt="p", execution_mode=Mode.AUTO, engine_options=(), session_timeout_sec=1)
    with store.writing() as connection:
        runs.insert(connection, "first", folder / "run-1", first)
        connection.execute("UPDATE runs SET request_json = ?", (text,))
        launch = runs.get(connection, "run-1").launch
        runs.insert(connection, "second", folder / "run-2", launch)
    ((written,),) = store.read("SELECT request_json FROM runs WHERE handle = 'second'")
    store.close()
    return launch, written


@pytest.mark.parametrize("row", [BODY | DEFAULTS, FULL], ids=["least", "most"])
def test_the_stored_form_is_that_of_earlier_releases(tmp_path: Path, row: dict[str, Any]) -> None:
    """A row that an earlier release wrote is read with every field, and written with the same members and values."""
    launch, written = stored(tmp_path, json.dumps(row))
    assert json.loads(written) == row
    assert {name: getattr(launch, name) for name in row} == row | {"engine_options": tuple(row["engine_options"])}


def test_a_row_may_have_fields_of_earlier_releases(tmp_path: Path) -> None:
    """A field that no longer exists is read over, and not written again."""
    launch, written = stored(tmp_path, json.dumps(BODY | DEFAULTS | {"warm_wait_sec": 600}))
    assert launch.prompt == BODY["prompt"]
    assert json.loads(written) == BODY | DEFAULTS


def test_the_defaults_are_those_of_the_document() -> None:
    """A body without a member gets the documented default; whole numbers may have a fraction of zero."""
    request = RunRequest.of(BODY)
    assert (request.execution_mode, request.engine_options, request.session_timeout_sec) == (Mode.AUTO, (), 1200)
    assert (request.model, request.allow_file_marks) == (None, False)
    assert repr(RunRequest.of({**BODY, "session_timeout_sec": 60.0}).session_timeout_sec) == "60"
    assert convert({"interaction_id": "1", "response": "x"}, ReplyRequest).allow_file_marks is False


def test_a_key_has_the_digest_of_earlier_releases() -> None:
    """It covers the body as sent, with its members in any order; a request without a key has none."""
    digest = "c27c0f59f3275a73e57f16bcc2441a1bfe021fcc5425d77bb0556f8f4d3aaf77"
    key = IdempotencyKey.of("k", {"prompt": "p", "engine": "codex"})
    assert key == IdempotencyKey("k", digest) == IdempotencyKey.of("k", {"engine": "codex", "prompt": "p"})
    assert IdempotencyKey.of("k", {"engine": "codex", "prompt": "p", "execution_mode": "auto"}) != key
    assert IdempotencyKey.of(None, BODY) is None
