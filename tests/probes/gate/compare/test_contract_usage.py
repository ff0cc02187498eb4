"""Which parts of an engine's surface its contract uses."""

from turngate.contract import load
from turngate_probes.gate.compare import Use, keys_in_use, option_use, use_of

CODEX = load.contract("codex").at("0.169.0")
GEMINI = load.contract("gemini").at("0.61.0")
OPENCODE = load.contract("opencode").at("1.18.33")


def test_options_of_every_turn_are_relied_on() -> None:
    """The contract relies on options in templates or on help pages, and offers those that callers may pass."""
    assert option_use(CODEX, "--json") == (Use.RELIES, "resume.accepted")
    assert option_use(CODEX, "SESSION_ID")[0] is Use.RELIES
    assert option_use(OPENCODE, "--auto") == (Use.RELIES, "auto.flags-accepted")
    assert option_use(CODEX, "--oss") == (Use.OFFERS, "help.surface")
    assert option_use(CODEX, "-C") == (Use.OFFERS, "help.surface")
    assert option_use(CODEX, "--cd")[0] is Use.RELIES
    assert option_use(CODEX, "--brand-new")[0] is Use.NONE


def test_records_and_keys_that_turns_are_read_by() -> None:
    """The contract relies on the records and keys that hold the id, the end, the answer and failures."""
    used = keys_in_use(CODEX)
    assert use_of(used, "thread.started", "") == (Use.RELIES, "handle.present")
    assert use_of(used, "thread.started", "thread_id") == (Use.RELIES, "handle.present")
    assert use_of(used, "turn.completed", "") == (Use.RELIES, "turn.terminal-event")
    assert use_of(used, "item.completed", "item.text") == (Use.RELIES, "text.imitation")
    assert use_of(used, "turn.failed", "error.message") == (Use.RELIES, "backend.failure-told")
    assert use_of(used, "turn.completed", "usage")[0] is Use.NONE
    assert use_of(used, "item.updated", "")[0] is Use.NONE


def test_a_key_of_any_record_is_used_in_all() -> None:
    """A session id that every record holds is used in every record kind."""
    used = keys_in_use(OPENCODE)
    assert use_of(used, "whatever", OPENCODE.handle.field)[0] is Use.RELIES
    assert use_of(used, "whatever", "")[0] is Use.NONE


def test_documents_are_used_by_their_keys() -> None:
    """For records without a kind, only the keys count as used."""
    used = keys_in_use(GEMINI)
    assert use_of(used, GEMINI.handle.field, "")[0] is Use.NONE or GEMINI.events.field is None
    assert use_of(used, "*", GEMINI.handle.field)[0] is Use.RELIES
