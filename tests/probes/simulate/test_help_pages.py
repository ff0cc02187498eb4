"""Options and commands of releases, as the help pages in the bundled histories show them."""

import pytest

from tests.tables import each
from turngate import load_contract
from turngate_probes.simulate.arguments import UsageProblem, query, read, unplayed
from turngate_probes.simulate.printing import simulation

CODEX = ("exec", "--json", "--skip-git-repo-check")
# of two releases, only the later one has the option
SINCE = [
    ("codex", "0.116.0", "0.122.0", (*CODEX, "--ignore-rules", "hello")),
    ("codex", "0.121.0", "0.122.0", (*CODEX, "resume", "--ignore-rules", "ID", "hello")),
    ("codex", "0.47.0", "0.74.0", (*CODEX, "--add-dir", "/tmp", "hello")),
    ("claude", "2.0.77", "2.1.330", ("-p", "--output-format", "json", "--restricted", "hello")),
    ("gemini", "0.1.5", "0.61.0", ("--output-format", "json", "-p", "hello")),
]
# not played: why
NOT_PLAYED = [
    ("claude", "2.1.9", ("-p", "--file", "x", "hello"), "turngate doesn't know whether claude 2.1.9 has --file"),
    ("gemini", "0.21.3", ("--experimental-acp",), "`gemini --experimental-acp` is not simulated"),
    ("codex", "0.169.0", (*CODEX, "--worktree", "hello"), "`codex --worktree` is not simulated"),
    ("claude", "2.1.330", ("-p", "--ide", "hello"), "`claude --ide` is not simulated"),
    ("claude", "2.1.330", ("-p", "--json-schema", "{}", "hello"), "`claude --json-schema` is not simulated"),
    ("opencode", "1.18.33", ("run", "--share", "hello"), "`opencode --share` is not simulated"),
]
PLAYED = [
    ("codex", "0.169.0", (*CODEX, "--ephemeral", "--image", "x.png", "--model", "m", "hello")),
    ("codex", "0.169.0", (*CODEX, "--no-such-option", "hello")),
    ("claude", "2.1.330", ("-p", "--fork-session", "--session-id", "x", "--include-partial-messages", "hello")),
    ("gemini", "0.33.0", ("--experimental-acp",)),
    ("gemini", "0.61.0", ("--skip-trust", "--session-id", "x", "-p", "hello")),
    ("opencode", "1.18.33", ("run", "--fork", "--dir", "x", "hello")),
]


@each("engine, before, since, argv", SINCE)
def test_an_option_is_accepted_from_the_release_that_has_it(
    engine: str, before: str, since: str, argv: tuple[str, ...]
) -> None:
    """Releases before that refuse it, as the real ones do."""
    with pytest.raises(UsageProblem, match="unexpected argument"):
        read(load_contract(engine, before), argv)
    read(load_contract(engine, since), argv)


@each("engine, release, argv, why", NOT_PLAYED)
def test_an_option_that_is_not_simulated_is_named(engine: str, release: str, argv: tuple[str, ...], why: str) -> None:
    """It is accepted by the release, has an effect that the simulation lacks, or nobody tried it."""
    assert unplayed(load_contract(engine, release), argv).startswith(why)


@each("engine, release, argv", PLAYED)
def test_options_with_their_effect_or_without_any_are_played(engine: str, release: str, argv: tuple[str, ...]) -> None:
    """One that the release refuses is not among those that are not simulated."""
    assert unplayed(load_contract(engine, release), argv) == ""


@each(
    "engine, release, argv, words",
    [
        ("codex", "0.117.0", ("-c", "a=b", "mcp-server"), "mcp-server"),
        ("codex", "0.148.0", ("-c", "a=b", "mcp-server"), None),
        ("codex", "0.99.0", ("mcp-server",), "mcp-server"),  # nobody asked: the next release that was has it
        ("codex", "0.155.0", ("mcp-server",), "mcp-server"),  # it may have it: the one before has it, the next has not
        ("codex", "0.160.1", ("mcp-server",), None),
        ("codex", "0.169.0", ("execpolicy", "check", "ls"), "execpolicy"),
        ("codex", "0.169.0", (*CODEX, "hello"), None),
        ("codex", "0.169.0", ("app-server",), None),
        ("opencode", "1.18.33", ("serve",), None),
        ("kilo", "7.7.7", ("serve", "--port", "0"), "serve"),
        ("kilo", "7.7.7", ("run", "serve"), None),
        ("copilot", "1.0.102", ("mcp", "list"), "mcp"),
        ("copilot", "1.0.102", ("-p", "help"), None),
        ("pi", "0.87.1", ("list",), "list"),
        ("pi", "0.87.1", ("--list-models",), "--list-models"),
        ("letta", "0.25.9", ("memory", "status", "--agent", "x"), "memory"),
        ("letta", "0.25.9", ("--prompt", "--backend", "local", "--", "memory"), None),
        ("hermes", "0.19.0", ("sessions", "list"), "sessions"),
        ("hermes", "0.19.0", ("chat", "--quiet", "--query=status"), None),
        ("kimi", "1.44.0", ("mcp", "list"), "mcp"),
        ("iflow", "0.5.19", ("mcp", "list"), "mcp"),
        ("vibe", "3.0.2", ("--setup",), "--setup"),
    ],
)
def test_the_commands_of_a_release_are_not_simulated(
    engine: str, release: str, argv: tuple[str, ...], words: str | None
) -> None:
    """Those that are listed of it, unless they run turns; what the release has no more is refused."""
    asked = query(load_contract(engine, release), argv)
    assert (asked and (asked.words, asked.answer)) == (words and (words, None))


@each(
    "engine, release, argv, answer",
    [
        ("codex", "0.45.0", ("features", "list"), "turngate doesn't know whether codex 0.45.0 has `features list`"),
        ("codex", "0.99.0", ("features", "list"), "turngate doesn't know whether codex 0.99.0 has `features list`"),
        ("codex", "0.116.0", ("features", "list"), ""),  # it was tried
        ("codex", "0.130.0", ("features", "list"), ""),  # between a release on which it was tried and one that lists it
        ("codex", "0.42.0", ("help",), ""),  # no list has it
        ("codex", "0.155.0", ("agents",), "turngate doesn't know whether codex 0.155.0 has `agents`"),
        ("codex", "0.169.0", ("agents",), "`codex agents` is not simulated"),
        ("codex", "0.147.0", ("agents",), None),
        ("codex", "0.155.0", ("git-credential",), None),  # both releases around it lack it
        ("claude", "2.1.12", ("auth", "status"), "turngate doesn't know whether claude 2.1.12 has `auth status`"),
        ("claude", "2.1.201", ("auth", "status"), ""),
        ("claude", "2.1.330", ("project", "purge"), None),
        ("gemini", "0.21.3", ("--list-sessions",), ""),
        ("gemini", "0.10.0", ("--list-sessions",), "turngate doesn't know whether gemini 0.10.0 has `--list-sessions`"),
        ("gemini", "0.1.5", ("--list-sessions",), None),
        ("gemini", "0.21.3", ("mcp", "list"), "turngate doesn't know whether gemini 0.21.3 has `mcp list`"),
        ("gemini", "0.53.0", ("mcp", "list"), ""),
    ],
)
def test_a_command_is_answered_where_the_release_is_known_to_have_it(
    engine: str, release: str, argv: tuple[str, ...], answer: str | None
) -> None:
    """None: the release lacks it, so it is no command."""
    asked = query(load_contract(engine, release), argv)
    assert (asked and asked.problem) == answer
    assert asked is None or (asked.answer is None) == bool(answer)


@each(
    "engine, release, modes, begins",
    [
        ("gemini", "0.33.0", ["default", "autoEdit", "yolo", "plan"], None),
        ("gemini", "0.29.0", ["default", "autoEdit", "yolo"], None),
        ("qwen", "0.24.4", ["plan", "default", "auto-edit", "auto", "yolo"], "auto"),
        ("qwen", "0.15.6", ["plan", "default", "auto-edit", "yolo"], None),
    ],
)
def test_a_session_has_the_modes_on_the_page(engine: str, release: str, modes: list[str], begins: str | None) -> None:
    """An option has the same ones, in another spelling; it begins in none that the release lacks."""
    sticky = simulation(load_contract(engine, release)).sticky
    assert ([mode["id"] for mode in sticky.acp.modes], sticky.starts_in) == (modes, begins)


@each(
    "release, modes",
    [("0.21.3", ("default", "auto_edit", "yolo")), ("0.61.0", ("default", "auto_edit", "yolo", "plan"))],
)
def test_the_values_of_an_option_are_those_on_the_page(release: str, modes: tuple[str, ...]) -> None:
    """Gemini CLI got the approval mode `plan` later than the others."""
    assert simulation(load_contract("gemini", release)).arguments.choices["--approval-mode"] == modes
