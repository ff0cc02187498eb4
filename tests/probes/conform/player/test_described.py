"""What the arguments of a call say."""

from pathlib import Path

import pytest

from tests.tables import each
from turngate import first_turn, load_contract, process_request
from turngate_probes.conform.player import described, named

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
    chosen = [described(CODEX, ("exec", "--cd", cwd, "--json", "-"), {}, None).cwd for cwd in ("/tmp", "docs")]
    assert (here, chosen) == (str(Path.cwd()), ["/tmp", str(Path.cwd() / "docs")])


@pytest.mark.parametrize("argv", [("--acp",), ("--input-format", "stream-json", "--output-format", "stream-json")])
def test_a_process_for_several_turns_is_no_turn(argv: tuple[str, ...]) -> None:
    """Also if it takes messages in another protocol than that of the contract."""
    assert described(QWEN, argv, {}, None).kind == "process"
