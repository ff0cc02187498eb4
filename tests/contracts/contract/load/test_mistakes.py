"""Typical errors of a first contract, and the messages of `turngate contracts check`."""

import pytest

from tests.contracts.contract.small import SMALL, line_of, mistakes_in, only_mistake
from tests.tables import each
from turngate.contract import lint, load
from turngate.files import simulation_files


@each(
    "old, new, reported",
    [
        ("title: Small", "titel: Small", ["$.titel: unknown key 'titel' (did you mean title?)"]),
        ("schema: turngate", "schem: turngate", ["unknown key 'schem' (did you mean schema?)"]),
        ('"{prompt}"', '"{promt}"', ["(An argument. {options} and {prompt} are arguments of their own;"]),
        ("record: first", "recrod: first", ["unknown key 'recrod' (did you mean record?)"]),
        ("record: first", "record: first, zzz: 1", ["unknown key 'zzz' (known keys: "]),
        ("record: first", "record: frist", ["'frist' is not one of", "(did you mean first?)"]),
        ("framing: ndjson", "framing: yaml", ["$.streams[0].stdout"]),
        ("  - since: 0.140.0\n    start", "  - since: v140\n    start", ["$.launch[1].since: 'v140' ", "(A release"]),
        ("shape: 's[0-9]{8}'", "shape: 's[0-9{8}'", ["unterminated character set", "(write a Python regular"]),
        ("vendor: ", "vendor: 7 #", ["is not of type 'string' (write text)"]),
        (
            "evidence: [{clause: resume.a",
            "unverified: true\n    evidence: [{clause: resume.a",
            ["unverified (remove one"],
        ),
        ("clause: resume.accepted", "clause: resume.acepted", ["(did you mean resume.accepted?)"]),
        ("clause: resume.accepted", "heard: it works", ["unknown key 'heard' (known keys: clause, observed, "]),
        ("clause: resume.accepted", "observed: it works, releases: [v1]", ["evidence[0].releases[0]: 'v1' does not"]),
        ("{clause: resume.accepted}", "it works", ["$.launch[1].evidence[0]: 'it works' is not of type 'object'"]),
        ("clause: resume.accepted", "recording: other/1.0.0/main-first", ["isn't a recording of small (write small/"]),
    ],
)
def test_a_mistake_is_reported_with_place_and_fix(old: str, new: str, reported: list[str]) -> None:
    """Every error has a line of the file and a hint."""
    assert old in SMALL
    errors = mistakes_in(SMALL.replace(old, new, 1))
    assert all(error.line and error.hint for error in errors), [str(error) for error in errors]
    for words in reported:
        assert any(words in str(error) for error in errors), [str(error) for error in errors]


def test_a_mistyped_key_is_one_mistake() -> None:
    """The key that a mistyped one stands for is not reported as missing, too."""
    assert len(mistakes_in(SMALL.replace("record: first", "recrod: first", 1))) == 1


def test_all_mistakes_are_found_at_once() -> None:
    """A schema error in one section doesn't hide errors in others."""
    broken = SMALL
    for old, new in (
        ("record: first", "record: next"),
        ("flag: --auto, value: none", "flag: --all, value: none"),
        ("(?P<version>.+)", "(.+)"),
        ("title: Small\n", "title: Small\ncolour: red\n"),
    ):
        broken = broken.replace(old, new, 1)
    reported = [f"{error.line}: {error.path}" for error in mistakes_in(broken)]
    assert [line.partition(" ")[2] for line in reported] == [
        "$.colour",
        "$.handle[0].record",
        "$.version[0].pattern",
        "$.launch[0].auto[0]",
        "$.launch[1].auto[0]",
    ]
    lines = broken.splitlines()
    assert "colour" in lines[int(reported[0].partition(":")[0]) - 1]
    assert "record: next" in lines[int(reported[1].partition(":")[0]) - 1]


def test_mistakes_in_a_simulation_are_all_reported() -> None:
    """First wrong keys and values are reported, then wrong evidence and order."""
    text = simulation_files()["codex"].read_text()
    reported = []
    for old, new in (
        ("since: 0.104.0", "since: 0.98.0"),
        ("    set:\n      hangs: null", "    set:\n      hang: null"),
        ("recording: codex/0.99.0/main-first", "recording: gemini/0.99.0/main-first"),
        (
            '    evidence: [{observed: "0.117.0 to 0.139.0 do',
            '    unverified: true\n    evidence: [{observed: "0.117.0 to 0.139.0 do',
        ),
        ("usage:\n  exit_code: 2", "usage:\n  exit_code: two"),
    ):
        assert old in text
        errors = list(lint.problems(load.parse(text.replace(old, new, 1), "codex.yaml", ours=True)))
        assert all(error.line and error.hint for error in errors)
        reported.append([f"{error.path}: {error.what}"[:70] for error in errors])
    assert [messages[0].partition(": ")[0] for messages in reported] == [
        "$.changes[2].since",
        "$.changes[1].set.hang",
        "$.changes[1].evidence[0]",
        "$.changes[3]",
        "$.usage.exit_code",
    ]


@each("text", ["", "# nothing\n", "text\n", "- 1\n", "null\n", "1\n"])
def test_file_that_holds_no_mapping_is_reported(text: str) -> None:
    """An empty file, or one with a list, is a schema error at its start."""
    error = only_mistake(text)
    assert (error.line, error.path) == (2 if text.startswith("#") and error.line == 2 else 1, "$")
    assert "is not of type 'object'" in error.what


@each(
    "old, new, line, column, path, message",
    [
        ("executable: small", "executable: 7", 7, 13, "$.executable", "7 is not of type 'string'"),
        ("executable: small", "executable: a/b", 7, 13, "$.executable", "does not match"),
        ("engine: small\n", "", 1, 1, "$", "'engine' is a required property"),
        ("title: Small", "title: Small\ntitel: x", 5, 1, "$.titel", "unknown key 'titel'"),
        ("{status: active}", "{status: dead}", 6, 21, "$.lifecycle.status", "'dead' is not one of"),
        ("since: 0.140.0\n    start", "since: 0.140\n    start", 21, 12, "$.launch[1].since", "does not match"),
        (
            "since: 0.140.0\n    start",
            "since: 140\n    start",
            21,
            12,
            "$.launch[1].since",
            "140 is not of type 'string'",
        ),
        ('contract_version: "1.0"', "contract_version: 1", 2, 19, "$.contract_version", "1 is not of type 'string'"),
        ("resume: [old, ", "resume: [7, ", 16, 14, "$.launch[0].resume[0]", "7 is not of type 'string'"),
        ("resume: [old, ", "resume: ['{x}', ", 16, 14, "$.launch[0].resume[0]", "does not match"),
        ("record: first", "record: next", 0, 0, "$.handle[0].record", "'next' is not one of"),
        ("shape: 's[0-9]{8}'", "shape: 's[0-9{8}'", 0, 0, "$.handle[0].shape", "is not a 'regex'"),
        ("framing: ndjson", "framing: xml", 0, 0, "$.streams[0].stdout", ""),
        ("noise: [a+]", "noise: ['a(']", 0, 0, "$.streams[0].stdout", ""),
        (
            "field: text, unverified: true",
            "field: text, unverified: false",
            0,
            0,
            "$.final[0].unverified",
            "True was expected",
        ),
        (
            "field: text, unverified: true",
            "feld: text, unverified: true",
            0,
            0,
            "$.final[0].feld",
            "unknown key 'feld'",
        ),
        ("symptom: hang", "symptom: It hangs", 0, 0, "$.deviations[0].symptom", "does not match"),
        ("auto_flags:\n  - {flag: --auto, unverified: true}", "auto_flags: []", 0, 0, "$.auto_flags", ""),
        (
            "auto_flags:\n  - {flag: --auto, unverified: true}",
            "auto_flags: {none: true}",
            0,
            0,
            "$.auto_flags",
            "'evidence'",
        ),
        ("pass: [SMALL_KEY]", "pass: [SMALL-KEY]", 0, 0, "$.environment[0].pass[0]", "does not match"),
        ("pass: [SMALL_KEY]", "pass: [SMALL_KEY, SMALL_KEY]", 0, 0, "$.environment[0].pass", "non-unique"),
        (
            '{directory: "{HOME}/small"',
            '{unsupported: no, directory: "/s"',
            0,
            0,
            "$.resume_probe[0].directory",
            "conflicts with",
        ),
    ],
)
def test_schema_error_points_at_its_place(old: str, new: str, line: int, column: int, path: str, message: str) -> None:
    """A value that violates the schema is reported with file, line, column and path (line 0: any)."""
    assert SMALL.count(old) == 1
    errors = mistakes_in(SMALL.replace(old, new))
    at = [error for error in errors if error.path.startswith(path) and message in error.what]
    assert at, [str(error) for error in errors]
    assert at[0].file == "small.yaml"
    assert not line or (at[0].line, at[0].column) == (line, column)
    assert line or at[0].line >= line_of(old.split("\n", maxsplit=1)[0]) - 1


@pytest.mark.parametrize(
    "section, path",
    [
        (
            "approval_signs:\n  - {pattern: '(?P<value>a))', safe_values: [a], unverified: true}",
            "approval_signs[0].pattern",
        ),
        ("volatile:\n  - {pattern: '(', placeholder: x, unverified: true}", "volatile[0].pattern"),
    ],
)
def test_pattern_that_is_none_is_reported(section: str, path: str) -> None:
    """An invalid regular expression is reported at its place."""
    (error,) = mistakes_in(f"{SMALL}{section}\n")
    assert error.path == f"$.{path}"
    assert "is not a 'regex'" in error.what


def test_schema_error_says_what_is_meant() -> None:
    """The hint is the schema's description of that place, also in the printed line."""
    error = only_mistake(SMALL.replace("executable: small", "executable: a/b"))
    assert str(error).startswith("small.yaml:7:13: $.executable: ")
    assert str(error).endswith("(The command's name on PATH. Absent: the engine's name.)")


def test_every_error_is_reported_at_once() -> None:
    """Several errors are reported together, in the order of their paths."""
    broken = SMALL.replace("vendor: Nobody", "vendor: 1").replace("title: Small", "title: 2")
    assert [error.path for error in mistakes_in(broken)] == ["$.title", "$.vendor"]
