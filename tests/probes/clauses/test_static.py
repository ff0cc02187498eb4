"""Checks of version and help pages, on pages made by hand."""

import dataclasses

import pytest
from msgspec.structs import replace

from tests.probes import turns as t
from turngate.process import Ended
from turngate_probes.harness.observations import NotSeenError

HELP = [t.page(f"static/help-{i + 1}", f"  {'  '.join(page.names)}  ") for i, page in enumerate(t.CODEX.help.pages)]


@pytest.mark.parametrize("printed", ["codex-cli 0.169.0\n", "codex-cli 0.169.0"])
def test_the_version_in_its_form_passes(printed: str) -> None:
    """The whole output in the contract's form, and the right version in it, passes."""
    assert t.check("version.readable", t.page("static/version", printed)).ok


@pytest.mark.parametrize(
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
    """Another form, other text around it, another version, a bad exit and a hang fail."""
    finding = t.check("version.readable", t.page("static/version", printed, exit_code, ended))
    assert not finding.ok
    assert detail in finding.detail


def test_any_version_does_where_none_is_known() -> None:
    """An executable that said no version is held to the form alone."""
    newest = replace(t.CODEX, version=None)
    assert t.check("version.readable", t.page("static/version", "codex-cli 9.9.9"), contract=newest).ok


def test_a_version_by_which_no_claim_can_be_chosen_fails() -> None:
    """What has the contract's form but is no semantic version is not readable either."""
    newest = replace(t.CODEX, version=None)
    finding = t.check("version.readable", t.page("static/version", "codex-cli v1"), contract=newest)
    assert (finding.ok, "not a semantic version" in finding.detail) == (False, True)


def test_help_that_names_everything_passes() -> None:
    """Every word of every page is found."""
    assert t.check("help.surface", *HELP).ok


@pytest.mark.parametrize("instead", ["", "--jsonl", "--json-lines", "x--json"])
def test_help_must_name_whole_words(instead: str) -> None:
    """A flag that only begins or ends with the name does not count, and the page is reported."""
    poor = dataclasses.replace(HELP[0], stdout=HELP[0].stdout.replace(b"--json ", instead.encode() + b" "))
    finding = t.check("help.surface", poor, *HELP[1:])
    assert (finding.ok, finding.detail) == (False, "missing: --json (exec --help)")


@pytest.mark.parametrize("clause", ["version.readable", "help.surface"])
def test_pages_that_were_not_seen_leave_the_clause_open(clause: str) -> None:
    """Pages that did not run are no failure of the engine."""
    with pytest.raises(NotSeenError, match="it did not run"):
        t.check(clause)
