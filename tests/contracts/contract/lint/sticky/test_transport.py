import pytest

from tests.contracts.contract.small import SMALL, mistakes_in, only_mistake

NONE = "transport: none"
ACP = 'transport: acp, argv: [--acp, "{options}"], interactive: {mode: default}'
SERVER = (
    "transport: app_server, argv: [app-server], model: session, interactive: {session: {p: ask}, expect: {p.0: ask}}"
)
WARM = (
    f"{ACP}, permission_requests: [x], one_time: {{allow: allow_once, deny: reject_once}}, keeps_session_id: true,"
    " private_store: false, warm: {mode: default}, loads_headless_sessions: true, evidence: [{clause: resume.accepted}]"
)
JSON = 'transport: stream_json, argv: ["{options}"], interactive: {mode: default}'


def changed(sticky: str) -> str:
    """Return the small contract with another sticky section, and with an option that chooses a model."""
    old = f"{NONE}, unverified: true"
    assert SMALL.count(old) == 1
    proof = "" if "evidence:" in sticky or "unverified:" in sticky else ", unverified: true"
    return SMALL.replace("model: []", "model: [--auto]").replace(old, f"{sticky}{proof}")


@pytest.mark.parametrize("sticky", [NONE, ACP, SERVER, JSON, WARM, "transport: acp, argv: [--acp], model: session"])
def test_a_transport_that_can_work_is_valid(sticky: str) -> None:
    """A transport with its arguments and a way to choose the model is valid."""
    assert mistakes_in(changed(sticky)) == []


@pytest.mark.parametrize(
    "sticky, path, message",
    [
        ("transport: none, argv: [acp]", "argv", "is never used without a transport"),
        ("transport: none, permission_requests: [a]", "permission_requests", "is never used without a transport"),
        ("transport: none, interactive: {mode: default}", "interactive", "is never used without a transport"),
        ("transport: acp, model: session", "", "acp has no `argv`"),
        ("transport: app_server, model: session", "", "app_server has no `argv`"),
        (
            SERVER.replace("app_server", "acp").replace(", expect: {p.0: ask}", ""),
            "interactive.session",
            "acp can't use `session`",
        ),
        (JSON.replace("mode: default", "expect: {a: b}"), "interactive.expect", "stream_json can't use `expect`"),
        (
            JSON.replace("interactive: {mode: default}", "auto: {session: {a: b}}"),
            "auto.session",
            "stream_json can't use `session`",
        ),
        (ACP.replace("mode: default", "turn: {a: b}"), "interactive.turn", "acp can't use `turn`"),
        (SERVER.replace("expect: {p.0: ask}", "mode: ask"), "interactive.mode", "app_server can't use `mode`"),
        (f"{JSON}, model: session", "model", "stream_json chooses no model by request"),
        ("transport: acp, argv: [--acp]", "argv", "has no slot for the model's option"),
    ],
)
def test_a_transport_that_can_not_work_is_reported(sticky: str, path: str, message: str) -> None:
    """A process that can't start, a setting that nothing sends, and a model that nothing chooses are reported."""
    error = only_mistake(changed(sticky))
    assert (error.path, bool(error.hint)) == (f"$.sticky[0].{path}".rstrip("."), True)
    assert message in error.what


def test_a_model_that_no_option_chooses_needs_no_slot() -> None:
    """Without an option for the model, the process needs no slot for options."""
    assert mistakes_in(SMALL.replace(NONE, "transport: acp, argv: [--acp]")) == []


@pytest.mark.parametrize(
    "old, new, path, message",
    [
        ("keeps_session_id: true", "keeps_session_id: false", "keeps_session_id", "True was expected"),
        ("keeps_session_id: true,", "", "", "'keeps_session_id' is a required property"),
        (
            "private_store: false",
            "private_store: true",
            "warm",
            "can't work if the process stores its sessions elsewhere",
        ),
        ("evidence: [{clause: resume.accepted}]", "unverified: true", "warm", "is claimed without proof"),
        ("warm: {mode: default}, ", "", "loads_headless_sessions", "is never used without `warm`"),
        ("warm: {mode: default}", "warm: {session: {a: b}}", "warm.session", "acp can't use `session`"),
        ("transport: acp", "transport: stream_json", "warm", "stream_json can't check whether a kept process"),
        (
            WARM,
            f"{NONE}, loads_headless_sessions: true",
            "loads_headless_sessions",
            "is never used without a transport",
        ),
    ],
)
def test_a_process_that_can_not_be_kept_for_a_resumable_run_is_reported(
    old: str, new: str, path: str, message: str
) -> None:
    """Its death must be noticed before a reply is sent, and headless turns must be proven to find its session."""
    assert WARM.count(old) == 1
    errors = mistakes_in(changed(WARM.replace(old, new)))
    wanted = f"$.sticky[0].{path}".rstrip(".")
    assert [error.what for error in errors if error.path == wanted and message in error.what], errors


def test_a_kept_process_with_options_needs_a_slot_for_them() -> None:
    """Its options would be dropped without one."""
    sticky = WARM.replace("warm: {mode: default}", "warm: {options: [--ask]}").replace(', "{options}"]', "]")
    errors = mistakes_in(changed(f"{sticky}, model: session"))
    assert [(error.path, error.what) for error in errors] == [("$.sticky[0].argv", "has no slot for options")]


def test_each_change_of_a_process_that_can_be_kept_needs_its_own_proof() -> None:
    """A change that takes back the evidence, or the transport's check, is reported where the claim is written."""
    unproven = f"{WARM}, changes: [{{since: 0.140.0, set: {{argv: [x, '{{options}}']}}, unverified: true}}]"
    (error,) = mistakes_in(changed(unproven))
    assert (error.path, error.what) == ("$.sticky[0].warm", "is claimed without proof")
