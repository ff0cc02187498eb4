from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from turngate import Mode
from turngate_reference.server.requests import ApiError, IdempotencyKey, RunLaunch
from turngate_reference.server.store import runs
from turngate_reference.server.store.database import Store
from turngate_reference.server.store.runs import Accepted, IdempotentRequest
from turngate_reference.states import State

LAUNCH = RunLaunch(engine="codex", prompt="p", execution_mode=Mode.AUTO, engine_options=(), session_timeout_sec=5)
SCOPE = "POST /v1/runs"
ANSWER = Accepted(run_id="run-1", state=State.QUEUED, turn_index=0, links={}, interaction_id="1")


def once(scope: str, body: dict[str, int]) -> IdempotentRequest:
    """Return a request with the key `once`."""
    return IdempotentRequest(scope, IdempotencyKey.of("once", body))


@pytest.fixture(name="store")
def _store(tmp_path: Path) -> Iterator[Store]:
    """Provide a store with one run, `run-1`."""
    with closing(Store(tmp_path / "turngate.db")) as store:
        with store.writing() as connection:
            runs.insert(connection, "handle", tmp_path / "run-1", LAUNCH)
        yield store


def test_a_key_gets_the_answer_that_it_got_before(store: Store) -> None:
    """The order of the body's members doesn't matter; the same key in another scope is unrelated."""
    with store.writing() as connection:
        assert once(SCOPE, {"a": 1, "b": 2}).answer(connection) is None
        once(SCOPE, {"a": 1, "b": 2}).keep(connection, "run-1", ANSWER)
        assert once(SCOPE, {"b": 2, "a": 1}).answer(connection) == ANSWER
        assert once("POST /v1/other", {"a": 1, "b": 2}).answer(connection) is None


def test_a_key_belongs_to_one_body(store: Store) -> None:
    """The same key with another body is rejected."""
    with store.writing() as connection:
        once(SCOPE, {"a": 1}).keep(connection, "run-1", ANSWER)
        with pytest.raises(ApiError, match="IDEMPOTENCY_KEY_REUSED"):
            once(SCOPE, {"a": 2}).answer(connection)


def test_a_request_without_a_key_was_never_done(store: Store) -> None:
    """Nothing is stored for it."""
    with store.writing() as connection:
        IdempotentRequest(SCOPE, None).keep(connection, "run-1", ANSWER)
        assert IdempotentRequest(SCOPE, None).answer(connection) is None
    assert store.read("SELECT * FROM idempotency") == []
