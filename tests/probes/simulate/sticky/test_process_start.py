import pytest

from tests.probes.simulate.played import at_known_release
from turngate_probes.simulate.arguments import UsageProblem, unplayed
from turngate_probes.simulate.sticky.process_start import ProcessStart, read, starts_sticky

# what official clients pass: the SDKs for Python and Node.js of Claude Code, and that of Qwen Code
PYTHON = (
    "--output-format",
    "stream-json",
    "--verbose",
    "--system-prompt",
    "",
    "--model",
    "m-1",
    "--permission-prompt-tool",
    "stdio",
    "--resume=s-1",
    "--setting-sources=user",
    "--input-format",
    "stream-json",
)
NODE = (
    "--output-format",
    "stream-json",
    "--verbose",
    "--input-format",
    "stream-json",
    "--model=m-1",
    "--permission-prompt-tool=stdio",
    "--resume=s-1",
    "--setting-sources=user",
)
QWEN = (
    "--input-format",
    "stream-json",
    "--output-format",
    "stream-json",
    "--channel=SDK",
    "--model",
    "m-1",
    "--approval-mode",
    "default",
    "--session-id",
    "s-2",
)


def _read(engine: str, *argv: str) -> ProcessStart:
    start = read(at_known_release(engine), argv)
    assert start
    assert starts_sticky(at_known_release(engine), argv)
    return start


@pytest.mark.parametrize("argv", [PYTHON, NODE])
def test_options_come_in_any_order_and_form(argv: tuple[str, ...]) -> None:
    """Both clients start the same process, with different spellings of its options."""
    start = _read("claude", *argv)
    assert (start.transport, start.model, start.resume, start.session, start.mode) == (
        "stream_json",
        "m-1",
        "s-1",
        None,
        None,
    )
    at = start.options.index("--permission-prompt-tool")
    assert start.options[at + 1] == "stdio"


def test_an_engine_can_have_a_second_protocol() -> None:
    """Qwen Code speaks messages as JSON lines with its SDK, and the Agent Client Protocol otherwise."""
    start = _read("qwen", *QWEN)
    assert (start.transport, start.model, start.session, start.mode) == ("stream_json", "m-1", "s-2", "default")
    assert _read("qwen", "--acp").transport == "acp"


def test_a_service_accepts_its_own_options() -> None:
    """It refuses an unknown one, a word, and those of other commands."""
    sdk = ("--headless", "--no-auto-update", "--log-level", "debug", "--stdio", "--auth-token-env", "T")
    for engine, argv in (("opencode", ("serve", "--hostname=127.0.0.1", "--port=0")), ("copilot", sdk)):
        assert _read(engine, *argv).transport == "service"
        assert not unplayed(at_known_release(engine), argv)
        for more in ("--no-such-option", "word"):
            with pytest.raises(UsageProblem):
                read(at_known_release(engine), (*argv, more))
    for other in (("serve", "--agent", "build"), ("acp", "--continue")):
        with pytest.raises(UsageProblem):
            read(at_known_release("opencode"), other)


def test_a_headless_turn_is_no_sticky_process() -> None:
    """Neither a prompt nor records on stdout start one, nor anything of an engine that has none."""
    assert not starts_sticky(at_known_release("opencode"), ("run", "serve"))
    claude = at_known_release("claude")
    argv = ("--print", "--output-format", "stream-json", "--verbose", "hello")
    assert read(claude, argv) is None
    assert not starts_sticky(claude, argv)
    assert not starts_sticky(at_known_release("hermes"), ("sessions", "list"))


@pytest.mark.parametrize("more", [("--no-such-option",), ("a prompt",), ("--model",)])
def test_what_is_not_accepted_is_refused(more: tuple[str, ...]) -> None:
    """An unknown option, a prompt and a missing value are refused."""
    with pytest.raises(UsageProblem):
        read(at_known_release("claude"), (*NODE, *more))
