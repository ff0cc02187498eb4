"""Checks of version and help output, on hand-made output."""

import pytest
from msgspec.structs import replace

from tests.probes import turns as t
from tests.tables import each
from turngate.model import Ended
from turngate_probes.harness.observations import CommandOutput, NotObservedError

HELP = [t.page(f"static/help-{i + 1}", f"  {'  '.join(page.names)}  ") for i, page in enumerate(t.CODEX.help.pages)]


@pytest.mark.parametrize("printed", ["codex-cli 0.169.0\n", "codex-cli 0.169.0"])
def test_the_version_in_its_form_passes(printed: str) -> None:
    """The right version, printed exactly in the contract's format, passes."""
    assert t.check("version.readable", t.page("static/version", printed)).ok


@each(
    "printed, exit_code, ended, detail",
    [
        ("codex 0.169.0", 0, Ended.EXIT, "does not match"),
        ("Update available!\ncodex-cli 0.169.0", 0, Ended.EXIT, "does not match"),
        ("", 0, Ended.EXIT, "does not match"),
        ("codex-cli 0.168.0", 0, Ended.EXIT, "it reports 0.168.0, but is 0.169.0"),
        ("codex-cli 0.169.0", 1, Ended.EXIT, "the version query exited with 1"),
        ("codex-cli 0.169.0", 0, Ended.TIMEOUT, "the version query exited with 0"),
    ],
)
def test_a_version_that_can_not_be_read_fails(printed: str, exit_code: int, ended: Ended, detail: str) -> None:
    """Another format, extra text, another version, a bad exit code and a timeout fail."""
    finding = t.check("version.readable", t.page("static/version", printed, exit_code, ended))
    assert not finding.ok
    assert detail in finding.detail


def _moved(page: CommandOutput) -> CommandOutput:
    return replace(page, stdout=b" \n", stderr=page.stdout)


def test_a_version_on_the_other_stream_says_what_to_change() -> None:
    """If only the other stream has the version, the contract names the wrong one."""
    finding = t.check("version.readable", _moved(t.page("static/version", "codex-cli 0.169.0\n")))
    assert (finding.ok, finding.detail) == (False, "stdout was empty, stderr has it; set `stream: stderr`")
    contract = replace(t.CODEX, version_query=replace(t.CODEX.version_query, stream="stderr"))
    assert t.check("version.readable", _moved(t.page("static/version", "codex-cli 0.169.0\n")), contract=contract).ok
    finding = t.check("version.readable", t.page("static/version", "codex-cli 0.169.0\n"), contract=contract)
    assert finding.detail == "stderr was empty, stdout has it; set `stream: stdout`"


def test_other_text_on_the_other_stream_is_no_version() -> None:
    """An error message is not taken for a version."""
    assert "does not match" in t.check("version.readable", _moved(t.page("static/version", "not now"))).detail


def test_help_on_the_other_stream_says_what_to_change() -> None:
    """If only the other stream has the page, the contract names the wrong one."""
    finding = t.check("help.surface", _moved(HELP[0]), *HELP[1:])
    said = "exec --help: stdout was empty, stderr has it; set `stream: stderr`"
    assert (finding.ok, finding.detail) == (False, said)


def test_any_version_does_where_none_is_known() -> None:
    """If the version is unknown beforehand, only the format is checked."""
    newest = replace(t.CODEX, version=None)
    assert t.check("version.readable", t.page("static/version", "codex-cli 9.9.9"), contract=newest).ok


def test_a_version_by_which_no_claim_can_be_chosen_fails() -> None:
    """Output in the contract's format fails if it is no semantic version."""
    newest = replace(t.CODEX, version=None)
    finding = t.check("version.readable", t.page("static/version", "codex-cli v1"), contract=newest)
    assert (finding.ok, "not a semantic version" in finding.detail) == (False, True)


def test_help_that_names_everything_passes() -> None:
    """Help output that contains every required word passes."""
    assert t.check("help.surface", *HELP).ok


@pytest.mark.parametrize("instead", ["", "--jsonl", "--json-lines", "x--json"])
def test_help_must_name_whole_words(instead: str) -> None:
    """A flag that only contains the required name does not count; the missing name and page are reported."""
    poor = replace(HELP[0], stdout=HELP[0].stdout.replace(b"--json ", instead.encode() + b" "))
    finding = t.check("help.surface", poor, *HELP[1:])
    assert (finding.ok, finding.detail) == (False, "missing: --json (exec --help)")


def test_help_that_was_cut_off_misses_nothing_yet() -> None:
    """A help page that had to be terminated fails as such, not because names are missing from its text."""
    cut = t.page("static/help-1", "", exit_code=-15, ended=Ended.TIMEOUT)
    finding = t.check("help.surface", cut, *HELP[1:])
    assert (finding.ok, finding.detail) == (False, "exec --help did not end by itself, so its text is not whole")


@pytest.mark.parametrize("clause", ["version.readable", "help.surface"])
def test_pages_that_were_not_seen_leave_the_clause_open(clause: str) -> None:
    """If a command was not run, its clause is not run either."""
    with pytest.raises(NotObservedError, match="it did not run"):
        t.check(clause)
