"""What a gate's results change in a contract that can be edited."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from tests.probes.gate import views
from tests.probes.report import journals as j
from turngate.contract import lint, load
from turngate.contract.load import Contract
from turngate.files import contract_files, use_overlay
from turngate_probes.report import contract_edits as module
from turngate_probes.report.contract_edits import TO_BE_WRITTEN, ContractEdit, contract_edits
from turngate_probes.report.markdown import markdown
from turngate_probes.report.release_view import view
from turngate_probes.report.reports import Difference, GateReport, Impact
from turngate_probes.report.text import report_lines

OLD, NEW = "codex@0.169.0", "codex@0.900.0"
FILE = contract_files()["codex"]
STALE = "exit code 2; stale: the declared deviation fresh-session did not occur"


def gate(*changed: Any, was: tuple[Any, ...] = (), differences: tuple[Difference, ...] = ()) -> GateReport:
    """Return a gate's report on the events of the newer release, and on these differences."""
    report = views.of(views.release(OLD, *was), views.release(NEW, *changed))
    return replace(report, differences=differences)


def gone(name: str) -> Difference:
    """Return the difference of a removed option."""
    return Difference("option", name, name, None, Impact.BREAKING, "gone", None)


def line(edit: ContractEdit) -> str:
    """Return the line of the contract that an edit names."""
    return FILE.read_text("utf-8").splitlines()[edit.line - 1]


def test_a_green_gate_without_changes_has_no_edits() -> None:
    """Where nothing changed, the contract stays as it is."""
    assert contract_edits(gate()) == ()


def test_a_deviation_that_no_longer_occurs_gets_an_end() -> None:
    """The edit names the line of the deviation, and gives its end and the observation."""
    stale = j.clause("resume.malformed-handle", detail=STALE, stale=True)
    (edit,) = contract_edits(gate(stale))
    assert "clause: resume.malformed-handle" in line(edit)
    observed = {"observed": "0.169.0 deviates, 0.900.0 does not"}
    assert yaml.safe_load(edit.text) == {"until": "0.900.0", "evidence": [observed]}
    assert contract_edits(gate(stale, was=(stale,))) == (), "it was stale before"


@pytest.mark.parametrize("is_known", [True, False])
def test_a_new_symptom_becomes_a_deviation(*, is_known: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text to paste is a valid deviation, with what other contracts say about the symptom if one does."""
    if not is_known:
        monkeypatch.setattr(module, "_known_actions", dict)
    fails = j.clause("resume.other-cwd", "fail", detail="from another directory: exit code 1 [refused]")
    (edit,) = contract_edits(gate(fails))
    assert line(edit).startswith(("deviations:", "  - "))
    (deviation,) = yaml.safe_load(edit.text)
    assert (deviation["clause"], deviation["symptom"], deviation["since"]) == ("resume.other-cwd", "refused", "0.900.0")
    assert (deviation["action"] == TO_BE_WRITTEN) is not is_known
    text = FILE.read_text("utf-8").replace("deviations:\n", "deviations:\n" + indented(edit.text), 1)
    document = load.parse(text, "codex.yaml", ours=True)
    assert [*lint.problems(document)] == []
    for version, declared in (("0.169.0", False), ("0.900.0", True)):
        clauses = {deviation.clause for deviation in Contract(document).at(version).deviations}
        assert ("resume.other-cwd" in clauses) is declared


def indented(text: str) -> str:
    """Return a text as it is pasted below a section."""
    return "".join(f"  {line}\n" for line in text.splitlines())


def test_a_failure_that_no_range_can_express_is_no_edit() -> None:
    """A baseline clause, and a failure without a symptom, are in the report alone."""
    fails = [j.clause("handle.present", "fail", detail="no id [gone]"), j.clause("prompt.large", "fail", detail="cut")]
    assert contract_edits(gate(*fails)) == ()


def test_options_that_are_gone_get_an_end() -> None:
    """An option ends in the list of options, and its name is no longer required on a help page."""
    edits = contract_edits(gate(differences=(gone("--oss"), gone("--cd"), gone("--unknown"))))
    assert [edit.what.partition(" ends")[0] for edit in edits[:2]] == ["option --oss", "option --cd"]
    assert "flag: --oss" in line(edits[0])
    (change,) = yaml.safe_load(edits[2].text)
    assert "--cd" not in change["set"]["pages"][0]["names"]
    assert len(change["set"]["pages"][0]["names"]) > 1


def test_new_kinds_of_records_become_known() -> None:
    """The edit lists the kinds that the contract doesn't know."""
    kinds = ("turn.budgeted", "item.updated")
    new = tuple(Difference("event", name, None, name, Impact.ADDITIVE, "new", None) for name in kinds)
    (edit,) = contract_edits(gate(differences=new))
    assert yaml.safe_load(edit.text) == ["turn.budgeted"]


def test_the_contract_of_an_installed_turngate_is_not_edited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user without a checkout gets edits only for contracts of their own, which name their file."""
    report = gate(differences=(gone("--oss"),))
    monkeypatch.setattr(module, "CHECKOUT", tmp_path / "none")
    assert contract_edits(report) == ()
    own = tmp_path / "own/engines/codex.yaml"
    own.parent.mkdir(parents=True)
    contract = yaml.safe_load(FILE.read_text("utf-8"))
    del contract["help"]["pages"][0]["names"]  # pages need no names
    own.write_text(yaml.safe_dump(contract))
    use_overlay(tmp_path / "own")
    try:
        (edit,) = contract_edits(report)
    finally:
        use_overlay(None)
    assert edit.file == str(own)


def test_reports_show_the_edits_as_text_that_can_be_pasted() -> None:
    """Text and Markdown have place and lines of each edit; hostile names stay text."""
    hostile = gone("--x</pre>\x1b[31m")
    report = gate(differences=(gone("--oss"), hostile))
    (edit,) = contract_edits(report)
    shown = view(report)
    text = [plain.plain for _, plain in report_lines(shown)]
    assert f"{edit.place}: {edit.what}" in text
    assert "until: 0.900.0" in text
    assert "<pre>\nuntil: 0.900.0\n" in markdown(shown)


def test_an_unanswered_gate_has_no_edits() -> None:
    """Without an answer nothing is known to have changed."""
    assert contract_edits(views.unanswered()) == ()
