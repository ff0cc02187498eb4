from pathlib import Path
from subprocess import CalledProcessError

import pytest

from tests.tools.docs.outputs import ran, renewed, unvarying

PAGE = "Before.\n<!-- output: turngate --version -->\nold\n<!-- /output -->\nAfter.\n"


def test_the_output_between_the_comments_is_replaced() -> None:
    """The output is replaced, nothing around it changes, and a second run gives the same page."""
    page = renewed(PAGE, lambda command: f"{command} printed this\n\n")
    assert page == (
        "Before.\n<!-- output: turngate --version -->\n```console\n$ turngate --version\n"
        "turngate --version printed this\n```\n<!-- /output -->\nAfter.\n"
    )
    assert renewed(page, lambda command: f"{command} printed this\n") == page


def test_a_page_without_comments_stays_as_it_is() -> None:
    """A page without comments is unchanged, and no command is run."""
    assert renewed("No outputs here.\n", lambda _: pytest.fail("a command was run")) == "No outputs here.\n"


def test_a_command_runs_in_its_folder_and_shows_no_home_directory(tmp_path: Path) -> None:
    """A command's stdout and stderr are shown, and turngate is on PATH."""
    (tmp_path / "note").write_text("here\n")
    assert ran("cat note; echo ~/x; echo problem >&2", tmp_path) == "here\n~/x\nproblem\n"
    assert ran("turngate --version", tmp_path).startswith("turngate")


def test_a_command_that_fails_is_never_shown(tmp_path: Path) -> None:
    """A command that fails raises an error, so its output is not shown."""
    with pytest.raises(CalledProcessError):
        ran("false", tmp_path)


def test_outputs_are_compared_without_what_varies() -> None:
    """Ids, ports, durations and progress don't count, other words do."""
    lines = (
        "codex: done after 7 turns in 2.6 s",
        "codex: session 01a2056e-6d5a-78f1-922c-dc5e92b6cb94 at 127.0.0.1:99",
    )
    later = "codex: done after 7 turns in 41 s", "codex: session 01a2056e-6d5a-78f1-922c-dc5e92b6cb95 at 127.0.0.1:98"
    assert unvarying("\n".join(lines)) == unvarying(
        "\n".join((later[1], "codex: 1 of about 7 turns, 0 passed", later[0]))
    )
    assert unvarying("3 clauses") != unvarying("4 clauses")
