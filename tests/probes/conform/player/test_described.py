"""What the arguments of a call say."""

import json
from pathlib import Path

import pytest

from tests.tables import each
from turngate import first_turn, load_contract, process_request
from turngate_probes.conform.calls import EngineCall
from turngate_probes.conform.player import described, named
from turngate_probes.releases.pins import pinned_version

QWEN = load_contract("qwen", "0.24.4")
GEMINI = load_contract("gemini", "0.61.0")
CODEX = load_contract("codex", "0.169.0")
ID = "0198c6a1-6d70-7000-8000-000000000001"
START = ("exec", "--json", "--skip-git-repo-check")


@each(
    "argv, kind, resumed, prompt, auto_approving",
    [
        (("--version",), "query", None, None, ()),
        ((*START, "--", "hi"), "turn", None, "hi", ()),
        ((*START, "-"), "turn", None, None, ()),
        ((*START, "resume", ID, "--", "--yolo"), "turn", ID, "--yolo", ()),
        ((*START, "--yolo", "resume", ID, "-"), "turn", ID, None, ("--yolo",)),
        ((*START, "-c", "approval_policy=never", "-"), "turn", None, None, ("-c approval_policy=never",)),
        ((*START, "-c", "approval_policy=never", "--sandbox", "read-only", "-"), "turn", None, None, ()),
        ((*START, "--no-such-option", "-"), "refused", None, None, ()),
        (("-c", "model=x", "login", "status"), "query", None, None, ()),
        (("mcp", "list", "--json"), "query", None, None, ()),
        (("doctor",), "unknown", None, None, ()),
        (("exec", "resume", "-h"), "query", None, None, ()),
        (("help", "exec"), "query", None, None, ()),
        (("-V",), "query", None, None, ()),
        (("exec", "review", "--uncommitted"), "unknown", None, None, ()),
        ((*START, "--", "login status"), "turn", None, "login status", ()),
    ],
)
def test_a_call_is_described(
    argv: tuple[str, ...], kind: str, resumed: str | None, prompt: str | None, auto_approving: tuple[str, ...]
) -> None:
    """By its kind, the session it resumes, its prompt, and the arguments that skip approval."""
    started = described(CODEX, argv, {"B": "secret", "A": ""}, None)
    assert (started.kind, started.resumed, started.prompt, started.auto_approving) == (
        kind,
        resumed,
        prompt,
        auto_approving,
    )
    assert (started.argv, started.env, bool(started.problem)) == (argv, ("A", "B"), kind in ("refused", "unknown"))


def test_a_call_that_the_simulation_cannot_describe_is_unknown() -> None:
    """It is recorded with the reason, so that nobody says that the engine was never started."""
    started = described(GEMINI, ("--output-format", "stream-json", "--skip-trust", "-p", "hi"), {}, None)
    assert started.kind == "unknown"
    assert started.problem.startswith("the simulator doesn't print --output-format stream-json")


def test_a_supplied_file_widens_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An orchestrator that runs Gemini as turngate builds the turn passes a policy, which makes it ask."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    request = process_request(first_turn(GEMINI, "hi", "interactive"), Path("/gemini"), tmp_path, env={})
    assert f"{tmp_path}" in " ".join(request.argv)
    assert described(GEMINI, request.argv[1:], {}, None).auto_approving == ()
    other = (*request.argv[1:], "--admin-policy", "/elsewhere/ask.toml")
    assert described(GEMINI, other, {}, None).auto_approving == ("--admin-policy /elsewhere/ask.toml",)


def test_the_latest_session_gets_a_name() -> None:
    """The option that asks for it is noted, and is not read behind `--`."""
    started = described(CODEX, (*START, "resume", "--last", "-"), {}, ID)
    assert (started.kind, started.resumed, started.newest_session) == ("turn", ID, "--last")
    assert named(CODEX, (*START, "--", "--last"), ID) == (*START, "--", "--last")


def test_an_option_can_choose_the_directory() -> None:
    """The engine works there, wherever its process was started."""
    here = described(CODEX, (*START, "-"), {}, None).cwd
    words = ("/tmp", "docs/../docs")
    chosen = [described(CODEX, ("exec", "--cd", cwd, "--json", "-"), {}, None).cwd for cwd in words]
    assert (here, chosen) == (str(Path.cwd()), ["/tmp", str(Path.cwd() / "docs")])


@each(
    "engine, argv, acts",
    [
        ("gemini", ("--acp",), []),
        ("gemini", ("--acp", "--yolo"), ["--yolo"]),
        ("gemini", ("--acp", "--approval-mode=auto_edit"), ["--approval-mode=auto_edit"]),
        ("codex", ("app-server", "-c", "sandbox_mode=danger-full-access"), ["-c sandbox_mode=danger-full-access"]),
        ("qwen", ("--acp", "--yolo"), ["--yolo"]),
    ],
)
def test_an_argument_of_a_process_can_skip_approval(engine: str, argv: tuple[str, ...], acts: list[str]) -> None:
    """In every protocol."""
    started = described(load_contract(engine, pinned_version(engine)), argv, {}, None)
    assert (started.kind, list(started.auto_approving)) == ("process", acts)


@each(
    "engine, argv, chooses",
    [
        ("gemini", ("--resume", "latest", "-p", "hi"), "--resume latest"),
        ("gemini", ("--resume=latest", "-p", "hi"), "--resume latest"),
        ("gemini", ("-p", "hi", "-r"), "--resume"),
        ("gemini", ("-r", "2", "-p", "hi"), "--resume 2"),
        ("gemini", ("-r", ID, "-p", "latest"), ""),
        ("opencode", ("run", "--continue", "hi"), "--continue"),
        ("claude", ("--continue", "-p", "hi"), "--continue"),
        ("codex", ("exec", "resume", "--last", "hi"), "--last"),
    ],
)
def test_a_session_may_be_chosen_by_its_order(engine: str, argv: tuple[str, ...], chooses: str) -> None:
    """Which names no session, so it may be that of another conversation."""
    started = described(load_contract(engine, pinned_version(engine)), argv, {}, ID)
    assert (started.kind, started.newest_session, started.resumed) == ("turn", chooses, ID)


@pytest.mark.parametrize("argv", [("--acp",), ("--input-format", "stream-json", "--output-format", "stream-json")])
def test_a_process_for_several_turns_is_no_turn(argv: tuple[str, ...]) -> None:
    """Also if it takes messages in another protocol than that of the contract."""
    assert described(QWEN, argv, {}, None).kind == "process"


@each(
    "more, resumed, chosen, newest",
    [
        ((), None, None, ""),
        (("--resume", ID), ID, None, ""),
        (("--session-id", ID), None, ID, ""),
        (("--no-such-option",), None, None, ""),
        (("--continue",), ID, None, "--continue"),
    ],
)
def test_a_process_for_several_turns_may_begin_with_a_session(
    more: tuple[str, ...], resumed: str | None, chosen: str | None, newest: str
) -> None:
    """That its arguments name."""
    argv = (
        *(() if newest else ("--print", "--verbose")),
        "--input-format",
        "stream-json",
        "--output-format",
        "stream-json",
        *more,
    )
    started = described(QWEN if newest else load_contract("claude", "2.1.330"), argv, {}, ID)
    found = started.kind, started.resumed, started.chosen, started.newest_session
    assert found == ("process", resumed, chosen, newest)
    assert bool(started.forms.prompts) == (more != ("--no-such-option",))


@each(
    "sent, count",
    [
        ({"method": "session/set_config_option", "params": {"configId": "mode", "value": "plan"}}, 1),
        ({"agent": "plan", "parts": []}, 1),
        ({"permission": [{"permission": "*", "pattern": "*", "action": "ask"}]}, 0),
        ({"permission": []}, 1),
        ({"permission": [{"permission": "*", "action": "ask"}, {"action": "allow", "permission": "edit"}]}, 1),
    ],
)
def test_a_client_can_make_opencode_ask(sent: dict[str, object], count: int) -> None:
    """The mode `plan` refuses edits, but runs commands without asking."""
    started = described(load_contract("opencode", "1.18.33"), ("acp",), {}, None)
    text = json.dumps(sent).encode()
    call = EngineCall(1, started, None, text, stdin_closed=True, stdout=b"", stderr="", signals=(), handle=None)
    assert len(call.auto_approving) == count


ACTS, ASKS_FIRST = {"sandbox": "workspace-write"}, {"approvalPolicy": "untrusted", "sandbox": "read-only"}


@each(
    "sent, count",
    [
        ([ASKS_FIRST], 0),
        ([{"approvalPolicy": "untrusted", **ACTS}], 0),
        ([ACTS], 1),
        ([ASKS_FIRST, {"approvalPolicy": "never", "sandboxPolicy": {"type": "dangerFullAccess"}}], 1),
        ([ASKS_FIRST, {"approvalPolicy": "never", "sandboxPolicy": {"type": "externalSandbox"}}], 1),
        ([{**ASKS_FIRST, "config": {"approval_policy": "never", "sandbox_mode": "danger-full-access"}}], 1),
        ([ASKS_FIRST, {"sandboxPolicy": {"type": "workspaceWrite"}}], 0),
    ],
)
def test_a_later_message_can_let_codex_act(sent: list[dict[str, object]], count: int) -> None:
    """A turn, and a setting in the request that opens its thread, outrank what the client chose for the thread."""
    started = described(CODEX, ("app-server",), {}, None)
    text = b"\n".join(json.dumps({"params": params}).encode() for params in sent)
    call = EngineCall(1, started, None, text, stdin_closed=True, stdout=b"", stderr="", signals=(), handle=None)
    assert len(call.auto_approving) == count
