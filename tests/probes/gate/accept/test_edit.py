"""Editing contracts as text: only the intended lines change."""

from copy import deepcopy
from itertools import groupby
from typing import Any

import pytest

from tests.longer import only_quick
from turngate.contract import load
from turngate.contract.versions import Path_, stretches
from turngate.files import contract_files
from turngate_probes.gate.accept import edit

TEXTS = {engine: file.read_text("utf-8") for engine, file in contract_files().items()}
FAR = "99.0.0"
SMALL = """# a contract
options:
  # the model
  - {flag: --model, value: required, evidence: [{clause: resume.accepted}]}  # said twice
  - flag: --block
    since: 0.2.0   # since then
    value: none
    evidence: &shown
      - {clause: auto.flags-accepted}
  - {flag: --other, value: none, evidence: *shown}

# what it prints
events:
  names: [one, two]

deviations: []
"""


def parsed(text: str) -> Any:
    """Return a contract's text as parsed data that a test may change."""
    return deepcopy(load.parse(text, "the edited contract", ours=True).data)


def open_claims(engine: str) -> list[Path_]:
    """Return the paths of an engine's claims that have no end."""
    entries = load.parse(TEXTS[engine], engine, ours=True).entries()
    return [path for path, entry in entries if stretches(entry)[-1].range.covers(FAR)]


def at(contract: Any, path: Path_) -> Any:
    """Return the claim at a path."""
    for part in path:
        contract = contract[part]
    return contract


@pytest.mark.parametrize("engine", only_quick(TEXTS, "opencode"))
def test_what_is_not_changed_stays_as_it_was_written(engine: str) -> None:
    """An unchanged contract is written back byte for byte."""
    assert edit.written(edit.read(TEXTS[engine])) == TEXTS[engine]


@pytest.mark.long
@pytest.mark.parametrize("engine", TEXTS)
def test_every_claim_of_every_contract_can_be_closed(engine: str) -> None:
    """Closing the claims of a section changes only the lines with their end and evidence."""
    for _, of_section in groupby(open_claims(engine), key=lambda path: path[0]):
        contract, expected = edit.read(TEXTS[engine]), parsed(TEXTS[engine])
        paths = list(of_section)
        for path in paths:
            edit.close(at(contract, path), FAR, "it ended")
            claim = at(expected, path)
            claim["until"] = FAR
            if "evidence" in claim:
                claim["evidence"] = [{"observed": "it ended"}, *claim["evidence"]]
        after = edit.written(contract)
        assert parsed(after) == expected, paths
        assert len(set(TEXTS[engine].splitlines()) - set(after.splitlines())) <= 2 * len(paths), paths


@pytest.mark.parametrize("engine", only_quick(TEXTS, "opencode"))
def test_a_deviation_is_added_after_the_last_one(engine: str) -> None:
    """Adding a deviation changes no other line."""
    new = {"clause": "a.b", "action": "wait: for it"}
    text = edit.added(TEXTS[engine], "deviations", [new])
    assert set(TEXTS[engine].splitlines()) <= set(text.splitlines())
    expected = parsed(TEXTS[engine])
    # a first deviation also adds a blank line and the name of the section
    assert len(text.splitlines()) == len(TEXTS[engine].splitlines()) + (2 if "deviations" in expected else 4)
    expected["deviations"] = [*expected.get("deviations", ()), new]
    assert parsed(text) == expected


@pytest.mark.parametrize("engine", only_quick(TEXTS, "opencode"))
def test_an_entry_changes_with_a_version(engine: str) -> None:
    """Changing an entry only adds lines, right before the blank line that ends its section."""
    contract, before = edit.read(TEXTS[engine]), TEXTS[engine].splitlines()
    entry = edit.entries(contract, "help")[-1]
    after = edit.written(edit.change(contract, entry, FAR, {"pages": []}, "it changed")).splitlines()
    at = next(i for i, line in enumerate(after) if line != before[i])
    count = len(after) - len(before)
    assert after[:at] + after[at + count :] == before
    assert all(after[at : at + count])
    assert stretches(parsed("\n".join(after))["help"])[-1].data["pages"] == []


def test_small_texts_are_edited_as_a_person_would() -> None:
    """New keys follow the style and position of their entry, comments stay, and shared lists don't change."""
    contract = edit.read(SMALL)
    for claim in contract["options"][:2]:
        edit.close(claim, "0.8.0", "gone before")
        edit.close(claim, "0.9.0", "gone")
    text = edit.written(contract)
    assert 'required, until: 0.9.0, evidence: [{observed: "gone"}, {observed' in text
    assert "{clause: resume.accepted}]} # said twice\n" in text
    block = '    until: 0.9.0\n    value: none\n    evidence:\n      - {observed: "gone"}\n'
    assert f"    since: 0.2.0   # since then\n{block}" in text
    assert parsed(text)["options"][2] == parsed(SMALL)["options"][2]


def test_a_section_is_made_where_there_is_none() -> None:
    """A missing section is added at the end; an empty one is filled before the next section's comment."""
    new = [{"flag": "--new", "value": "none"}]
    assert "\n  - flag: --new\n    value: none\n\n# what it prints\nevents:\n" in edit.added(SMALL, "options", new)
    for section in ("deviations", "volatile"):
        text = edit.added(SMALL, section, new)
        assert text.endswith(f"\n\n{section}:\n  - flag: --new\n    value: none\n")
        assert parsed(text)[section] == new


@pytest.mark.parametrize("word", ["true", "null", "12", "-", "a: b", "a #b", "[", "é", "0.140", "--json", "x.y-z"])
def test_a_word_is_read_as_it_was_meant(word: str) -> None:
    """Words that YAML would read as something else are quoted."""
    contract = edit.read(SMALL)
    contract["events"]["names"].append(word)
    assert parsed(edit.written(contract))["events"]["names"] == ["one", "two", word]
