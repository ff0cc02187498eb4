from tests.contracts.contract.small import SMALL, mistakes_in, only_mistake
from tests.tables import each

NONE = "transport: none"
ACP = 'transport: acp, argv: [--acp, "{options}"], interactive: {mode: default}'
SERVER = (
    "transport: app_server, argv: [app-server], model: session, interactive: {session: {p: ask}, expect: {p.0: ask}}"
)
JSON = 'transport: stream_json, argv: ["{options}"], interactive: {mode: default}'


def changed(sticky: str) -> str:
    """Return the small contract with another sticky section, and with an option that chooses a model."""
    old = f"{NONE}, unverified: true"
    assert SMALL.count(old) == 1
    proof = "" if "evidence:" in sticky or "unverified:" in sticky else ", unverified: true"
    return SMALL.replace("model: []", "model: [--auto]").replace(old, f"{sticky}{proof}")


@each("sticky", [NONE, ACP, SERVER, JSON, "transport: acp, argv: [--acp], model: session"])
def test_a_transport_that_can_work_is_valid(sticky: str) -> None:
    """A transport with its arguments and a way to choose the model is valid."""
    assert mistakes_in(changed(sticky)) == []


@each(
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
