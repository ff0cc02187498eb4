"""Editing the text of contracts: what is changed is what was meant, and all else stays as it was written."""

import re

import pytest

from turngate.contract import load
from turngate.contract.claims import claims
from turngate.contract.load import Path_, claim_range
from turngate.contract.versions import parse
from turngate.files import contract_files
from turngate_probes.gate.accept import edit

TEXTS = {engine: file.read_text("utf-8") for engine, file in contract_files().items()}
FAR = "99.0.0"
OPEN = [
    (engine, path)
    for engine, text in TEXTS.items()
    for path, claim in claims(edit.parsed(text))
    if claim_range(claim).covers(FAR)
]
CUT = [(engine, path) for engine, path in OPEN if path[0] in ("help", "options", "launch", "handle")]
SMALL = """# a contract
options:
  # the model
  - {flag: --model, value: required, evidence: [{clause: resume.accepted}]}  # said twice
  - flag: --block
    since: 0.2.0   # since then
    value: none
    evidence:
      - {clause: auto.flags-accepted}

events:
  - names: [one, two]
  - names:
      - three
      - four

deviations: []
"""


def named(claim: tuple[str, Path_]) -> str:
    """Name a claim of an engine."""
    return f"{claim[0]}:{load.dotted(claim[1])}"


def comments(text: str) -> list[str]:
    """List the comments of a text, those in strings as well."""
    return re.findall(r"#[^\n]*", text)


@pytest.mark.parametrize("engine, path", OPEN, ids=map(named, OPEN))
def test_every_claim_of_every_contract_can_be_closed(engine: str, path: Path_) -> None:
    """Nothing changes but the end of the claim and its evidence; every line that was there is, or has grown."""
    before, after = TEXTS[engine], edit.close(TEXTS[engine], path, FAR, "it ended")
    expected = edit.parsed(before).data
    claim = expected[path[0]][path[1]]
    claim["until"] = FAR
    if "evidence" in claim:
        claim["evidence"] = [{"observed": "it ended"}, *claim["evidence"]]
    assert edit.parsed(after).data == expected
    assert comments(after) == comments(before)
    grown = set(before.splitlines()) - set(after.splitlines())
    assert len(grown) <= 2


@pytest.mark.parametrize("engine, path", CUT, ids=map(named, CUT))
def test_a_claim_can_be_cut_in_two(engine: str, path: Path_) -> None:
    """Both halves say what the claim said, one before and one after; for older releases nothing changes."""
    text = edit.split(TEXTS[engine], path, FAR, "it changed")
    section, i = path[0], int(path[1])
    data, expected = edit.parsed(text).data, edit.parsed(TEXTS[engine]).data
    first, second, whole = data[section][i], data[section][i + 1], expected[section][i]
    ranges = ("since", "until", "evidence")
    for half in (first, second):
        assert {k: v for k, v in half.items() if k not in ranges} == {k: v for k, v in whole.items() if k not in ranges}
    assert (first["until"], second["since"]) == (FAR, FAR)
    assert first.get("since") == whole.get("since")
    assert parse(second["since"]) > parse(first.get("since", "0.0.0"))
    del data[section][i + 1]
    data[section][i] = whole
    assert data == expected


def test_small_texts_are_edited_as_a_person_would() -> None:
    """The new keys stand where one looks for them, in either style, and comments stay."""
    text = edit.close(SMALL, ("options", 0), "0.9.0", "gone")
    text = edit.close(text, ("options", 1), "0.9.0", "gone")
    assert (
        "  - {flag: --model, value: required, until: 0.9.0, evidence: [{observed: gone}, {clause: resume.accepted}]}"
        "  # said twice\n"
    ) in text
    block = "    until: 0.9.0\n    value: none\n    evidence:\n      - {observed: gone}\n"
    assert f"    since: 0.2.0   # since then\n{block}" in text
    assert edit.close(text, ("options", 1), "0.8.0", "gone before").count("until: 0.8.0") == 1


def test_words_come_and_go() -> None:
    """A word joins the end of its list, and leaves it, in either style."""
    text = edit.add_item(edit.add_item(SMALL, ("events", 0, "names"), "new"), ("events", 1, "names"), "very new")
    assert "names: [one, two, new]\n" in text
    assert '      - four\n      - "very new"\n' in text
    for path in (("events", 0, "names", 0), ("events", 0, "names", 1), ("events", 1, "names", 1)):
        text = edit.remove_item(text, path)
    assert [each["names"] for each in edit.parsed(text).data["events"]] == [["two"], ["three", "very new"]]
    with pytest.raises(ValueError, match="only entry"):
        edit.remove_item(text, ("events", 0, "names", 0))


def test_a_claim_is_added_after_the_last_one() -> None:
    """With what stands between the sections left where it is; a section that is not there is made."""
    fields = (("flag", "--new"), ("evidence", [{"observed": "it is there"}]))
    text = edit.add_claim(SMALL, "options", fields)
    assert '  - flag: --new\n    evidence: [{observed: "it is there"}]\n\nevents:' in text
    assert edit.parsed(text).data["options"][2] == {"flag": "--new", "evidence": [{"observed": "it is there"}]}
    made = edit.add_claim(SMALL, "volatile", (("pattern", "x y"),))
    assert edit.parsed(made).data["volatile"] == [{"pattern": "x y"}]
    with pytest.raises(ValueError, match="empty"):
        edit.add_claim(SMALL, "deviations", fields)


@pytest.mark.parametrize("word", ["true", "null", "12", "-", "a: b", "a #b", "[", "é", "0.140", "--json", "x.y-z"])
def test_a_word_is_read_as_it_was_meant(word: str) -> None:
    """What YAML would read as something else is quoted."""
    text = edit.add_item(SMALL, ("events", 0, "names"), word)
    assert edit.parsed(text).data["events"][0]["names"] == ["one", "two", word]
