from pathlib import Path

import pytest

from turngate.contract.home_and_workspace import ToolUse
from turngate_probes.simulate.backend import Called
from turngate_probes.simulate.sticky import tool_calls

WRITES = ToolUse("Write", {"file_path": "{work}/touched.txt", "content": "hi"})
RUNS = ToolUse("bash", {"command": "echo hi > touched.txt", "description": "Touch a file"})


def _called(tool: ToolUse, **arguments: str) -> Called:
    return Called(tool.name, "call-1", {}, arguments)


def test_a_file_is_written_with_its_content(tmp_path: Path) -> None:
    """The call's own path and content count, relative to the working directory."""
    assert tool_calls.act(_called(WRITES, file_path="notes.md", content="# Notes"), WRITES, str(tmp_path)) is None
    assert (tmp_path / "notes.md").read_text() == "# Notes"


@pytest.mark.parametrize("path", ["../outside.txt", "/outside.txt"])
def test_nothing_is_written_outside_of_the_workspace(path: str, tmp_path: Path) -> None:
    """A path outside of the working directory is refused with a reason."""
    refused = tool_calls.act(_called(WRITES, file_path=path, content="x"), WRITES, str(tmp_path / "work"))
    assert refused is not None
    assert "outside of the workspace" in refused
    assert not list(tmp_path.rglob("outside.txt"))


@pytest.mark.parametrize("command", ["rm -r .", "echo $(id) > other.txt", "echo x > other.txt; id"])
def test_a_command_is_not_run(command: str, tmp_path: Path) -> None:
    """Only the file that the contract names is written."""
    assert tool_calls.act(_called(RUNS, command=command), RUNS, str(tmp_path)) is None
    assert [file.name for file in tmp_path.iterdir()] == ["touched.txt"]


def test_a_command_that_writes_text_writes_its_file(tmp_path: Path) -> None:
    """The text of `echo TEXT > FILE` is in the file."""
    assert tool_calls.act(_called(RUNS, command="sleep 1; echo hello world > other.txt"), RUNS, str(tmp_path)) is None
    assert (tmp_path / "other.txt").read_text() == "hello world\n"
    assert tool_calls.act(_called(RUNS, command="touch empty.txt"), RUNS, str(tmp_path)) is None
    assert (tmp_path / "empty.txt").read_text() == ""


def test_a_link_is_refused(tmp_path: Path) -> None:
    """A link inside the workspace is not followed."""
    (tmp_path / "link.txt").symlink_to(tmp_path / "target.txt")
    refused = tool_calls.act(_called(WRITES, file_path="link.txt", content="x"), WRITES, str(tmp_path))
    assert "is a link" in (refused or "")
    assert not (tmp_path / "target.txt").exists()


def test_slots_name_the_file_and_its_path() -> None:
    """A relative path is completed in the arguments, too."""
    slots = tool_calls.slots_of(_called(WRITES, file_path="a/b.txt", content="hi"), WRITES, "/work")
    assert (slots["path"], slots["file"], slots["content"], slots["subject"]) == (
        "/work/a/b.txt",
        "b.txt",
        "hi",
        "a/b.txt",
    )
    assert slots["absolute_input"] == {"file_path": "/work/a/b.txt", "content": "hi"}
    assert slots["input"] == {"file_path": "a/b.txt", "content": "hi"}


def test_a_command_that_reads_reads_its_file(tmp_path: Path) -> None:
    """`cat FILE` waits for a file that is a pipe, and fails without one."""
    (tmp_path / "there.txt").write_text("x")
    assert tool_calls.act(_called(RUNS, command="cat there.txt"), RUNS, str(tmp_path)) is None
    missing = tool_calls.act(_called(RUNS, command="cat absent.txt"), RUNS, str(tmp_path))
    assert missing is not None
    assert "absent.txt can't be read" in missing
    assert [file.name for file in tmp_path.iterdir()] == ["there.txt"]
