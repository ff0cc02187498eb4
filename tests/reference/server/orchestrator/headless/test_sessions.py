from tests.reference.cli_env import SESSION
from turngate.contract import load
from turngate_reference.server.orchestrator.headless import stored_session
from turngate_reference.server.store.runs import RunSession

CODEX = load.contract("codex").at("0.169.0")


def test_a_session_is_stored_with_its_turn() -> None:
    """An id as the contract knows it is stored without a note."""
    assert stored_session(CODEX, SESSION, 2) == RunSession("codex", "session_id", SESSION, 2)


def test_an_unfamiliar_id_is_stored_with_a_note() -> None:
    """The note says what is unfamiliar; the id is unchanged."""
    stored = stored_session(CODEX, SESSION.upper(), 1)
    assert stored.handle_value == SESSION.upper()
    assert (
        stored.note == f"the session id has an unfamiliar shape: '{SESSION.upper()}' doesn't match {CODEX.handle.shape}"
    )
