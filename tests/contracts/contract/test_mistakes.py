"""What somebody who writes a first contract gets wrong, and what `turngate contracts check` says of it."""

import pytest

from tests.contracts.contract.test_load import SMALL, found
from turngate.contract import lint, load
from turngate.files import simulation_files


@pytest.mark.parametrize(
    "old, new, told",
    [
        ("title: Small", "titel: Small", ["$: 'title' is a required property (add `title: ...`)",
                                          "$.titel: unknown key 'titel' (did you mean 'title'?)"]),
        ("record: first", "recrod: first", ["'record' is a required property", "(did you mean 'record'?)"]),
        ("record: first", "record: first, zzz: 1", ["unknown key 'zzz' (known keys: "]),
        ("record: first", "record: frist", ["'frist' is not one of", "(did you mean first?)"]),
        ("framing: ndjson", "framing: yaml", ["$.streams[0].stdout"]),
        ("  - since: 0.140.0\n    start", "  - since: v140\n    start", ["$.launch[1].since: 'v140' ", "(A release"]),
        ("shape: 's[0-9]{8}'", "shape: 's[0-9{8}'", ["unterminated character set", "(write a regular expression"]),
        ("title: Small", "title: [Small]", ["is not of type 'string' (write text)"]),
        ("{stream: stdout, field: text, unverified: true}", "{stream: stdout}", ["has no evidence (give `evidence`"]),
        ("clause: resume.accepted", "clause: resume.acepted", ["(did you mean resume.accepted?)"]),
        ("clause: resume.accepted", "heard: it works", ["unknown key 'heard' (known keys: clause, observed, "]),
        ("clause: resume.accepted", "observed: it works, releases: [v1]", ["evidence[0].releases[0]: 'v1' does not"]),
        ("{clause: resume.accepted}", "it works", ["$.launch[1].evidence[0]: 'it works' is not of type 'object'"]),
        ("clause: resume.accepted", "recording: other/1.0.0/main-first", ["names no recording of small (write small/"]),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_place_and_fix(old: str, new: str, told: list[str]) -> None:
    """Every mistake has a line of the file and a hint."""
    assert old in SMALL
    errors = found(SMALL.replace(old, new, 1))
    assert all(error.line and error.hint for error in errors), [str(error) for error in errors]
    for words in told:
        assert any(words in str(error) for error in errors), [str(error) for error in errors]


def test_all_mistakes_are_found_at_once() -> None:
    """What the schema refuses in one section hides nothing in the others."""
    broken = SMALL
    for old, new in (
        ("record: first", "record: last"),
        ("flag: --auto, value: none", "flag: --all, value: none"),
        ("(?P<version>.+)", "(.+)"),
        ("title: Small\n", "title: Small\ncolour: red\n"),
    ):
        broken = broken.replace(old, new, 1)
    told = [f"{error.line}: {error.path}" for error in found(broken)]
    assert [each.partition(" ")[2] for each in told] == [
        "$.colour", "$.handle[0].record", "$.version[0].pattern", "$.launch[0].auto[0]", "$.launch[1].auto[0]",
    ]  # fmt: skip
    lines = broken.splitlines()
    assert "colour" in lines[int(told[0].partition(":")[0]) - 1]
    assert "record: last" in lines[int(told[1].partition(":")[0]) - 1]


def test_mistakes_in_a_simulation_are_all_reported() -> None:
    """Wrong keys and values; then wrong evidence and order."""
    text = simulation_files()["codex"].read_text()
    told = []
    for old, new in (
        ("since: 0.104.0", "since: 0.98.0"),
        ("    set:\n      hangs: null", "    set:\n      hang: null"),
        ("recording: codex/0.99.0/main-first", "recording: gemini/0.99.0/main-first"),
        ('    evidence: [{observed: "0.117.0 to 0.139.0 do not print it", releases: [0.117.0 to 0.139.0]}]\n', ""),
        ("usage:\n  exit_code: 2", "usage:\n  exit_code: two"),
    ):  # fmt: skip
        assert old in text
        errors = list(lint.problems(load.parse(text.replace(old, new, 1), "codex.yaml")))
        assert all(error.line and error.hint for error in errors)
        told.append([f"{error.path}: {error.message}"[:70] for error in errors])
    assert [each[0].partition(": ")[0] for each in told] == [
        "$.changes[1].since", "$.changes[0].set.hang", "$.changes[0].evidence[0]", "$.changes[2]", "$.usage.exit_code",
    ]  # fmt: skip
