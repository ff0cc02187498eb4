"""How a gate's results change the version ranges of codex's contract."""

from typing import Any

import pytest

from tests.probes.gate.release_samples import clause, release
from turngate.contract import load
from turngate.contract.load import Contract
from turngate.contract.verdict import ClauseResult
from turngate.files import contract_files
from turngate_probes.gate.accept.ranges import TO_BE_WRITTEN, Rewritten, rewrite
from turngate_probes.report.reports import Difference, Impact

TEXT = contract_files()["codex"].read_text("utf-8")
OLD, NEW = "0.169.0", "0.900.0"


def rewritten(
    *clauses: ClauseResult,
    differences: tuple[Difference, ...] = (),
    was: tuple[ClauseResult, ...] = (),
    compensations: dict[tuple[str, str], str] | None = None,
) -> Rewritten:
    """Write the results of the newer release into the contract."""
    sides = release(f"codex@{OLD}", *was), release(f"codex@{NEW}", *clauses)
    return rewrite(TEXT, *sides, differences, compensations or {})


def at(text: str, version: str) -> Any:
    """Return the edited contract for a version."""
    return Contract(load.parse(text, "the edited contract", ours=True)).at(version)


def gone(name: str) -> Difference:
    """Return the difference of a removed option."""
    return Difference("option", name, name, None, Impact.BREAKING, "gone", None)


def test_where_nothing_changed_the_text_is_the_same() -> None:
    """Without differences the contract's text does not change."""
    assert rewritten() == Rewritten(TEXT, (), ())


def test_a_deviation_that_did_not_occur_any_more_ends() -> None:
    """A stale deviation ends before the newer release, with evidence, and still applies to the older one."""
    detail = "exit code 2; stale: the declared deviation fresh-session did not occur"
    contract = rewritten(clause("resume.malformed-handle", detail=detail, stale=True))
    assert len(contract.done) == 1
    for version, there in ((OLD, True), (NEW, False)):
        declared = {deviation.clause for deviation in at(contract.text, version).deviations}
        assert ("resume.malformed-handle" in declared) is there
    assert f'{{observed: "{OLD} deviates, {NEW} does not"}}' in contract.text


def test_a_deviation_that_did_not_occur_before_either_is_left() -> None:
    """A deviation that was stale in the older release too is not changed."""
    detail = "exit code 2; stale: the declared deviation fresh-session did not occur"
    stale = clause("resume.malformed-handle", detail=detail, stale=True)
    assert rewritten(stale, was=(stale,)).text == TEXT


def test_a_symptom_that_is_new_becomes_a_deviation() -> None:
    """A new symptom becomes a deviation with the workaround of other contracts, or else a placeholder."""
    fails = clause("resume.other-cwd", "fail", "from another directory: exit code 1 [refused]")
    for asked, expected in (({("resume.other-cwd", "refused"): "stay there"}, "stay there"), ({}, TO_BE_WRITTEN)):
        contract = rewritten(fails, compensations=asked)
        (reported,) = [
            deviation for deviation in at(contract.text, NEW).deviations if deviation.clause == "resume.other-cwd"
        ]
        assert (reported.symptom, reported.action) == ("refused", expected)
        assert "resume.other-cwd" not in {deviation.clause for deviation in at(contract.text, OLD).deviations}


def test_what_no_range_can_say_is_left_to_a_person() -> None:
    """A failing baseline, or a failure without a symptom, is listed for manual review and changes nothing."""
    contract = rewritten(clause("handle.present", "fail", "no id [gone]"), clause("prompt.large", "fail", "cut"))
    assert contract.text == TEXT
    assert [line.partition(" ")[0] for line in contract.left] == ["handle.present", "prompt.large"]
    assert rewritten(clause("prompt.large", "fail"), was=(clause("prompt.large", "fail"),)).left == ()


def test_options_that_went_end() -> None:
    """Removed options end in the list of options and on the help pages."""
    contract = rewritten(differences=(gone("--oss"), gone("--cd"), gone("--unknown")))
    was, now = at(contract.text, OLD), at(contract.text, NEW)
    assert {option.flag for option in was.options} - {option.flag for option in now.options} == {"--oss", "--cd"}
    assert "--cd" in was.help.pages[0].names
    assert "--cd" not in now.help.pages[0].names
    assert was == load.contract("codex").at(OLD)


def test_kinds_of_records_that_are_new_are_known() -> None:
    """New record kinds are added to the known ones, which stay as they are."""
    new, known = (
        Difference("event", name, None, name, Impact.ADDITIVE, "new", None)
        for name in ("turn.budgeted", "item.updated")
    )
    contract = rewritten(differences=(new, known))
    assert at(contract.text, NEW).events.names == (*load.contract("codex").at(NEW).events.names, "turn.budgeted")


@pytest.mark.long
def test_all_at_once() -> None:
    """Several changes to one contract can be made together."""
    detail = "exit code 2; stale: the declared deviation fresh-session did not occur"
    contract = rewritten(
        clause("resume.malformed-handle", detail=detail, stale=True),
        clause("resume.other-cwd", "fail", "gone [refused]"),
        differences=(gone("--oss"), gone("--cd")),
    )
    assert len(contract.done) == 5
    assert at(contract.text, OLD) == load.contract("codex").at(OLD)
