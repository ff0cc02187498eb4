"""Marks in prompts that make an engine read files."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.tables import each
from turngate import first_turn, resumed_turn
from turngate.argv.file_marks import check_file_marks
from turngate.contract import load
from turngate.contract.launch import FileMark
from turngate.errors import RefusedError
from turngate.model import Mode

CODEX = load.contract("codex").at("0.169.0")
MARKED = replace(CODEX, file_marks=(FileMark(r'(?<!\S)@(?P<path>"[^"]*"|\S+)'),))


@pytest.fixture(name="work")
def _work(tmp_path: Path) -> Path:
    """A workspace with a file, a folder, and a link that leads out of it."""
    work = tmp_path / "work"
    (work / "docs").mkdir(parents=True)
    (work / "notes.txt").write_text("x")
    (work / "out").symlink_to(tmp_path)
    (work / "loop").symlink_to(work / "loop")
    (work / "caf\u00e9").symlink_to(tmp_path)
    return work


@each(
    "named",
    [
        "@/etc/passwd",
        "@~/.ssh/id_rsa",
        "@../secret",
        "@docs/../../secret",
        '@"/etc/passwd"',
        "@out/secret",
        "@$HOME/x",
        "@\\/etc/passwd",
        "@file:///etc/passwd",
        "@loop",
        '@" /etc/passwd"',
        '@"\n/etc/passwd"',
        '@"\ufeff/etc/passwd"',
        '@" ~/x"',
        '@" ../secret"',
        "@\" 'file:///etc/passwd'\"",
        '@"\x1f../secret"',
        "@" + "a/" * 3000,
        "@'a%41\\b<'c\u00e9\ufb01#x",
        "@FILE:/etc/passwd",
        "@%2e%2e%2fsecret",
        "@.\\'./secret",
        "@out#L10-20",
        "@out:10",
        "@cafe\u0301/secret",
        "@\uff0e\uff0e\uff0fsecret",
    ],
)
def test_a_file_outside_the_workspace_is_not_named(named: str, work: Path) -> None:
    """A first turn and a resume are refused, and the error shows the mark and the way out."""
    with pytest.raises(RefusedError, match="by itself") as raised:
        first_turn(MARKED, f"Read {named} please", "interactive", workspace=work)
    assert "outside the workspace" in raised.value.hint
    with pytest.raises(RefusedError):
        resumed_turn(
            MARKED, f"Read {named} please", "interactive", "0198c6a1-6d70-7000-8000-000000000001", workspace=work
        )


@each(
    "said",
    [
        "Read @notes.txt",
        "Read @docs/new.txt",
        "mail me@/etc",
        "@alice and @bob",
        "a @ b",
        '@"docs/my notes.txt"',
        "@docs/\u540d\u524d.txt#L10-20",
        "@docs/\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        '@pytest.mark.parametrize("n, [(1, 2)]")',
    ],
)
def test_other_prompts_are_passed(said: str, work: Path) -> None:
    """Files of the workspace, names and addresses are no danger."""
    assert first_turn(MARKED, said, "interactive", workspace=work).stdin == said.encode()


@pytest.mark.parametrize("named, refused", [("@/etc/passwd", True), ("@~/x", True), ("@../x", True), ("@alice", False)])
def test_without_a_workspace_only_plain_names_are_passed(named: str, refused: bool) -> None:  # noqa: FBT001
    """Where the workspace is unknown, a path that may lead anywhere is refused."""
    if refused:
        with pytest.raises(RefusedError):
            first_turn(MARKED, named, "interactive")
    else:
        first_turn(MARKED, named, "interactive")


def test_a_caller_may_allow_it_and_mode_auto_reads_anyway(work: Path) -> None:
    """An explicit word of the caller, or mode auto, passes the prompt as it is."""
    assert first_turn(MARKED, "@~/x", "interactive", workspace=work, allow_file_marks=True).stdin == b"@~/x"
    assert first_turn(MARKED, "@~/x", "auto", workspace=work).stdin == b"@~/x"


@each(
    "engine, named",
    [
        ("claude@2.1.330", '@" ../secret"'),
        ("grok@1.0.41", "@a\x1fb"),
        ("grok@1.0.41", "@docs\x1f/../../secret"),
        ("grok@1.0.41", "@\u2003../secret:1-2"),
        ("gemini@0.61.0", "@/etc/passwd"),
        ("gemini@0.61.0", "me@../secret"),
        ("gemini@0.61.0", "a,@x\\ y/../../secret."),
        ("gemini@0.61.0", '@".."/secret'),
        ("gemini@0.61.0", "@docs/**/../../secret"),
        ("qwen@0.24.4", "@/etc/passwd"),
        ("qwen@0.24.4", "me@../secret"),
        ("qwen@0.24.4", "a,@x\\ y/../../secret."),
        ("qwen@0.24.4", "@https://a,/../../../secret"),
        ("qwen@0.24.4", "@docs\x1f/../../secret"),
    ],
)
def test_a_mark_ends_where_its_engine_ends_it(engine: str, named: str, work: Path) -> None:
    """White space that Python alone or the engine alone knows hides no path."""
    name, _, version = engine.partition("@")
    with pytest.raises(RefusedError, match="by itself"):
        check_file_marks(load.contract(name).at(version), f"Read {named} please", work)


@each("engine", ["claude@2.1.330", "gemini@0.61.0", "grok@1.0.41", "qwen@0.24.4"])
def test_addresses_and_code_are_no_danger(engine: str, work: Path) -> None:
    """What people paste into prompts names no file outside the workspace."""
    name, _, version = engine.partition("@")
    said = """git@github.com:acme/lib.git, me@example.com. @app.route("/x")
@Override @acme/ui@^1.2.3 https://me@host/a%20b "${arr[@]}" @media (width: 9em)"""
    check_file_marks(load.contract(name).at(version), said, work)


@pytest.mark.parametrize("mode", Mode)
def test_no_other_session_is_named(mode: Mode, work: Path) -> None:
    """Qwen Code sends no transcript of another session, whichever mode the turn has."""
    qwen = load.contract("qwen").at("0.24.4")
    with pytest.raises(RefusedError, match="transcript of another session"):
        first_turn(qwen, "See @session:0198c6a1-6d70-7000-8000-000000000001", mode, workspace=work)


def test_too_many_marks_are_refused(work: Path) -> None:
    """To look at each would take too long; one that is repeated is looked at once."""
    claude = load.contract("claude").at("2.1.330")
    check_file_marks(claude, " @notes.txt" * 100_000, work)
    with pytest.raises(RefusedError, match="more than 2000 files"):
        check_file_marks(claude, " ".join(f"@a{number}" for number in range(2001)), work)
