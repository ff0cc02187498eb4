"""Marks in prompts that make an engine read files."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.tables import each
from turngate import first_turn, resumed_turn
from turngate.contract import load
from turngate.contract.launch import FileMark
from turngate.errors import RefusedError

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


@each("said", ["Read @notes.txt", "Read @docs/new.txt", "mail me@/etc", "@alice and @bob", "a @ b"])
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
