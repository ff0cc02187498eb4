"""Claims that change with releases, and mistakes in the files that describe simulations."""

from turngate import lint, load
from turngate.changes import bare, stretches
from turngate.overlay import simulation_files

CLAIM = {
    "a": 1, "b": 2, "until": "9.0.0", "note": "old", "evidence": [1],
    "changes": [
        {"since": "1.0.0", "set": {"b": None, "c": 3}, "evidence": [2]},
        {"since": "2.0.0", "unverified": True},
    ],
}  # fmt: skip


def test_a_change_replaces_adds_and_removes_keys() -> None:
    """Each stretch ends where the next begins, the last where the claim ends; evidence and note are its own."""
    assert stretches(CLAIM) == [
        {"a": 1, "b": 2, "note": "old", "evidence": [1], "until": "1.0.0"},
        {"a": 1, "c": 3, "since": "1.0.0", "evidence": [2], "until": "2.0.0"},
        {"a": 1, "c": 3, "since": "2.0.0", "unverified": True, "until": "9.0.0"},
    ]
    assert bare(stretches(CLAIM)[1]) == {"a": 1, "c": 3}
    assert stretches({"a": 1}) == [{"a": 1}]


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
