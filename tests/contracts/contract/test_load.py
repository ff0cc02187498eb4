import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from turngate.contract import lint, load
from turngate.contract.load import Contract, parse
from turngate.errors import ContractError, NotCoveredError, NoVersionError
from turngate.files import contract_files

PACKAGED = Path(load.__file__).parents[1] / "engines" / "codex.yaml"
SMALL = """\
schema: turngate.engine-contract/1
contract_version: "1.0"
engine: small
title: Small
vendor: Nobody
lifecycle: {status: active}
executable: small
published: {}
version:
  - {argv: [--version], pattern: '(?P<version>.+)', unverified: true}
help:
  - {pages: [{argv: [--help], names: [--json]}], unverified: true}
launch:
  - until: 0.140.0
    start: [old, "{options}", "{prompt}"]
    resume: [old, "{options}", resume, "{handle}", "{prompt}"]
    prompt: [{via: argument, tokens: ["--", "{text}"]}]
    auto: [--auto]
    model: []
    unverified: true
  - since: 0.140.0
    start: [new, "{options}", "{prompt}"]
    resume: [new, "{options}", resume, "{handle}", "{prompt}"]
    prompt: [{via: stdin, tokens: ["-"]}]
    auto: [--auto]
    model: []
    evidence: [{clause: resume.accepted}]
options:
  - {flag: --auto, value: none, unverified: true}
  - {flag: --late, value: none, since: 0.140.0, unverified: true}
auto_flags:
  - {flag: --auto, unverified: true}
streams:
  - {stdout: {framing: ndjson, noise: [a+]}, stderr: {framing: text}, unverified: true}
events:
  - {stream: stdout, field: type, names: [a], unverified: true}
handle:
  - {handle_type: session_id, stream: stdout, record: first, field: id, shape: 's[0-9]{8}', nonexistent_id: s00000000,
     unverified: true}
end:
  - {stream: stdout, unverified: true}
final:
  - {stream: stdout, field: text, unverified: true}
environment:
  - {pass: [SMALL_KEY], locations: [SMALL_HOME], unverified: true}
resume_probe:
  - {directory: "{HOME}/small", unverified: true}
hermetic:
  - {env: {}, files: [], model: stub, unverified: true}
sticky:
  - {transport: none, unverified: true}
deviations:
  - {clause: stdin.open, symptom: hang, compensation: close it, unverified: true}
"""


def found(text: str) -> list[ContractError]:
    """List all that is wrong with a contract."""
    return list(lint.problems(parse(text, "small.yaml")))


def only(text: str) -> ContractError:
    """Return the one thing that is wrong with a contract."""
    (error,) = found(text)
    return error


def line_of(text: str) -> int:
    """Count the line of the small contract on which a text stands."""
    return SMALL[: SMALL.index(text)].count("\n") + 1


def test_small_contract_is_valid() -> None:
    """The contract that the other tests break is whole."""
    assert found(SMALL) == []


@pytest.mark.parametrize(
    "written, value",
    [
        ("0.140", "0.140"),
        ("1.10", "1.10"),
        ("1e3", "1e3"),
        (".5", ".5"),
        ("0x10", "0x10"),
        ("0o7", "0o7"),
        ("010", "010"),
        ("1_000", "1_000"),
        ("12:30", "12:30"),
        ("2026-04-01", "2026-04-01"),
        ("on", "on"),
        ("no", "no"),
        ("yes", "yes"),
        ("True", "True"),
        ("NULL", "NULL"),
        ("~", "~"),
        ("+1", "+1"),
        ("-0", "-0"),
        (".inf", ".inf"),
        ("'1'", "1"),
        ("'true'", "true"),
        ("=", "="),
        ("<<", "<<"),
        ("1", 1),
        ("0", 0),
        ("-7", -7),
        ("131000", 131000),
        ("true", True),
        ("false", False),
        ("null", None),
        ("", ""),
    ],
)
def test_scalar_is_read_as_written(written: str, value: object) -> None:
    """Only null, true, false and plain integers are more than text: a version never loses its last zero."""
    read = parse(f"a: {written}\n", "f").data["a"]
    assert (read, type(read)) == (value, type(value))


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.text(st.characters(min_codepoint=32, max_codepoint=0x2FFF, exclude_categories=["Cs", "Cc"])),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc.-0", min_size=1), inner, max_size=3),
        max_leaves=8,
    )
)
def test_data_round_trips(data: Any) -> None:
    """Data that is written as YAML is read back as it was."""
    assert parse(yaml.safe_dump({"data": data}, allow_unicode=True), "f").data == {"data": data}


@given(
    st.one_of(
        st.text(max_size=40),
        st.lists(
            st.sampled_from(
                (
                    "a",
                    ":",
                    " ",
                    "\n",
                    "- ",
                    "[",
                    "{",
                    "}",
                    "&x ",
                    "*x",
                    "!!int ",
                    "'",
                    "? ",
                    "\t",
                    "1",
                    "|",
                    "\0",
                    "\ud800",
                    "---\n",
                    "#",
                )
            ),
            max_size=12,
        ).map("".join),
    )
)
def test_any_text_is_a_document_or_a_contract_error(text: str) -> None:
    """No text makes the reader raise anything but an error about the contract."""
    with suppress(ContractError):
        assert parse(text, "some.yaml").file == "some.yaml"


@pytest.mark.parametrize(
    "text, place, message",
    [
        ("a: 1\nb:\n  c: 1\n  c: 2\n", "f:4:3: $.b", "key 'c' stands twice"),
        ("a: 1\n'a': 1\n", "f:2:1: $", "key 'a' stands twice"),
        ("a: {b: 1, b: 1}\n", "f:1:11: $.a", "key 'b' stands twice"),
        ("- a: 1\n- b: 1\n  b: 1\n", "f:3:3: $[1]", "key 'b' stands twice"),
        ("? [a]\n: 1\n", "f:1:3: $", "a key must be text"),
        ("a: [1\nb: 2\n", "f:2:2", ""),
        ("a:\n\t- 1\n", "f:2:1", ""),
        ("a: *none\n", "f:1:4", "undefined alias"),
        ("a: 1\n---\nb: 1\n", "f:2:1", ""),
        ("a: !!int x\n", "f:1:4: $.a", "not an integer"),
        ("a: " + "9" * 5000, "f:1:4: $.a", "not an integer"),
        ("a: &a [*a]\n", "f", "alias"),
        ("[" * 100_000, "f", "nested too deep"),
        ("a: \0\n", "f", "not allowed"),
        ("a: \udcff\n", "f", ""),
    ],
)
def test_broken_yaml_is_told_with_its_place(text: str, place: str, message: str) -> None:
    """A syntax error, a key that stands twice and what else is no contract are told by file, line and column."""
    with pytest.raises(ContractError) as raised:
        parse(text, "f")
    assert str(raised.value).startswith(f"{place}: ")
    assert message in raised.value.message
    assert raised.value.hint or "key" in message


def test_file_that_is_no_utf_8_is_a_contract_error(tmp_path: Path) -> None:
    """A file of other bytes is told as what it is."""
    file = tmp_path / "latin.yaml"
    file.write_bytes(b"title: caf\xe9\n")
    with pytest.raises(ContractError, match=r"latin\.yaml"):
        load.read(file)


@pytest.mark.parametrize("text", ["", "# nothing\n", "text\n", "- 1\n", "null\n", "1\n"])
def test_file_that_holds_no_mapping_is_told(text: str) -> None:
    """An empty file or one that is a list is a schema error at its beginning."""
    error = only(text)
    assert (error.line, error.path) == (2 if text.startswith("#") and error.line == 2 else 1, "$")
    assert "is not of type 'object'" in error.message


@pytest.mark.parametrize(
    "old, new, line, column, path, message",
    [
        ("executable: small", "executable: 7", 7, 13, "$.executable", "7 is not of type 'string'"),
        ("executable: small", "executable: a/b", 7, 13, "$.executable", "does not match"),
        ("title: Small\n", "", 1, 1, "$", "'title' is a required property"),
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
        ("record: first", "record: last", 0, 0, "$.handle[0].record", "'last' is not one of"),
        ("shape: 's[0-9]{8}'", "shape: 's[0-9{8}'", 0, 0, "$.handle[0].shape", "is not a 'regex'"),
        ("framing: ndjson", "framing: xml", 0, 0, "$.streams[0].stdout", ""),
        ("noise: [a+]", "noise: ['a(']", 0, 0, "$.streams[0].stdout", ""),
        ("stream: stdout, field: text, unverified: true", "stream: stdout, field: text", 0, 0, "$.final[0]", ""),
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
        ("pass: [SMALL_KEY]", "pass: [SMALL-KEY]", 0, 0, "$.environment[0].pass[0]", "does not match"),
        ("pass: [SMALL_KEY]", "pass: [SMALL_KEY, SMALL_KEY]", 0, 0, "$.environment[0].pass", "non-unique"),
        (
            '{directory: "{HOME}/small"',
            '{unsupported: no, directory: "/s"',
            0,
            0,
            "$.resume_probe[0].directory",
            "does not go with",
        ),
    ],
)
def test_schema_error_points_at_its_place(old: str, new: str, line: int, column: int, path: str, message: str) -> None:
    """A value that the schema refuses is told with file, line, column and path (line 0: any)."""
    assert SMALL.count(old) == 1
    errors = found(SMALL.replace(old, new))
    at = [error for error in errors if error.path.startswith(path) and message in error.message]
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
def test_pattern_that_is_none_is_told(section: str, path: str) -> None:
    """Wherever a regular expression may stand, one that Python can't read is an error of its place."""
    (error,) = found(f"{SMALL}{section}\n")
    assert error.path == f"$.{path}"
    assert "is not a 'regex'" in error.message


def test_schema_error_says_what_is_meant() -> None:
    """The description of the place in the schema is the hint, also in the printed line."""
    error = only(SMALL.replace("executable: small", "executable: a/b"))
    assert str(error).startswith("small.yaml:7:13: $.executable: ")
    assert str(error).endswith("(The command's name on PATH.)")


def test_every_error_is_told_at_once() -> None:
    """Two mistakes are two errors, in the order of their paths."""
    broken = SMALL.replace("vendor: Nobody", "vendor: 1").replace("title: Small", "title: 2")
    assert [error.path for error in found(broken)] == ["$.title", "$.vendor"]


@pytest.mark.parametrize(
    "old, new, path, message",
    [
        (
            "  - since: 0.140.0\n    start",
            "  - since: 0.139.0\n    start",
            "$.launch[1]",
            "covers releases that entry 0",
        ),
        ("  - since: 0.140.0\n    start", "  - start", "$.launch[1]", "covers releases that entry 0"),
        ("  - since: 0.140.0\n    start", "  - until: 0.1.0\n    start", "$.launch[1]", "covers releases that entry 0"),
        (
            "value: none, since: 0.140.0",
            "value: none, since: 0.140.0, until: 0.140.0",
            "$.options[1].until",
            "is not after",
        ),
        (
            "value: none, since: 0.140.0",
            "value: none, since: 0.140.0, until: 0.99.0",
            "$.options[1].until",
            "is not after",
        ),
        ("clause: stdin.open", "clause: stdin.shut", "$.deviations[0].clause", "no clause 'stdin.shut'"),
        ("clause: stdin.open", "clause: handle.present", "$.deviations[0].clause", "is a baseline"),
        ("clause: stdin.open", "clause: interactive.no-auto-flags", "$.deviations[0].clause", "is a baseline"),
        (
            "nonexistent_id: s00000000",
            "nonexistent_id: s0000000",
            "$.handle[0].nonexistent_id",
            "does not have the shape",
        ),
        (
            "nonexistent_id: s00000000",
            "nonexistent_id: 's00000000 '",
            "$.handle[0].nonexistent_id",
            "does not have the shape",
        ),
        ("(?P<version>.+)", "(.+)", "$.version[0].pattern", "names no group `version`"),
        (
            "locations: [SMALL_HOME]",
            "locations: [SMALL_KEY]",
            "$.environment[0].locations[0]",
            "SMALL_KEY is passed too",
        ),
        ("locations: [SMALL_HOME]", "locations: [A_Token]", "$.environment[0].locations[0]", "may hold a secret"),
        (
            "locations: [SMALL_HOME]",
            "locations: [SMALL_HOME, XAPIKEY]",
            "$.environment[0].locations[1]",
            "may hold a secret",
        ),
        (
            '{directory: "{HOME}/small"',
            '{directory: "{HOME}/{X}"',
            "$.resume_probe[0].directory",
            "of {X}",
        ),
        (
            'prompt: [{via: stdin, tokens: ["-"]}]\n    auto: [--auto]',
            'prompt: [{via: stdin, tokens: ["-"]}]\n    auto: [--all]',
            "$.launch[1].auto[0]",
            "--all is no declared option",
        ),
    ],
)
def test_what_a_schema_can_not_say_is_told(old: str, new: str, path: str, message: str) -> None:
    """Ranges that meet, names that nobody declared and misshapen values are told with place and remedy."""
    assert SMALL.count(old) == 1
    error = found(SMALL.replace(old, new))[0]
    assert error.path == path
    assert message in error.message
    assert error.line > 1
    assert error.hint


def test_shape_that_admits_a_flag_is_told() -> None:
    """A shape that `--x` has is none."""
    broken = SMALL.replace("shape: 's[0-9]{8}'", "shape: '.*'")
    assert any(error.path == "$.handle[0].shape" and "looks like a flag" in error.message for error in found(broken))


STORE = """\
store:
  - since: 0.140.0
    locations: {SMALL_HOME: "{HOME}/.small", SMALL_DATA: "{SMALL_HOME}/data"}
    check: {kind: glob, pattern: "{SMALL_DATA}/*/{handle}.json"}
    unverified: true
"""
WITH_STORE = SMALL.replace("locations: [SMALL_HOME]", "locations: [SMALL_HOME, SMALL_DATA]") + STORE


def test_a_store_and_a_probe_that_agree_are_valid() -> None:
    """A default may use those before it, and the probe any variable of the store that holds where it does."""
    assert found(WITH_STORE) == []
    probe = "{command: {argv: [resume, --help], names: [ID]}, unverified: true}"
    late = '{since: 0.140.0, directory: "{SMALL_DATA}/x", unverified: true}'
    assert found(WITH_STORE.replace(probe, late)) == []


@pytest.mark.parametrize(
    "old, new, path, message",
    [
        ("{HOME}/.small", "{SMALL_DATA}/x", "$.store[0].locations.SMALL_HOME", "of {SMALL_DATA}"),
        ("{SMALL_DATA}/*/", "{OTHER}/*/", "$.store[0].check.pattern", "of {OTHER}"),
        ("{SMALL_DATA}/*/", "{SMALL_DATA}/**/", "$.store[0].check.pattern", "another wildcard"),
        ("{handle}.json", "{handle}.jso?", "$.store[0].check.pattern", "another wildcard"),
        ("[SMALL_HOME, SMALL_DATA]", "[SMALL_DATA]", "$.environment[0].locations", "SMALL_HOME of `store` is missing"),
    ],
)
def test_a_store_that_nothing_else_agrees_with_is_told(old: str, new: str, path: str, message: str) -> None:
    """Unknown slots, wildcards of other kinds and variables that a resume would not keep are errors."""
    assert WITH_STORE.count(old) == 1
    error = only(WITH_STORE.replace(old, new))
    assert (error.path, bool(error.hint)) == (path, True)
    assert message in error.message


def small(edit: Callable[[str], str] = str) -> Contract:
    """Load the small contract, edited."""
    return Contract(parse(edit(SMALL), "small.yaml"))


def test_claims_are_chosen_by_version() -> None:
    """Each release gets the claims that hold for it; without a version the newest."""
    contract = small()
    assert contract.at("0.139.9").launch.start[0] == "old"
    assert contract.at("0.140.0").launch.start[0] == "new"
    assert contract.at().launch.start[0] == "new"
    assert [option.flag for option in contract.at("0.139.9").options] == ["--auto"]
    assert [option.flag for option in contract.at("1.0.0").options] == ["--auto", "--late"]
    assert contract.at("1.0.0").version == "1.0.0"


LISTED = "  - {transport: none, unverified: true}\n"
CHANGED = """\
  transport: none
  unverified: true
  until: 3.0.0
  changes:
    - since: 1.0.0
      set: {transport: acp, argv: [--acp, "{options}"], interactive: {mode: ask}, permission_requests: [x],
            same_id: true, own_store: true, one_time: {allow: once, deny: never}}
      evidence: [{clause: resume.accepted}]
    - {since: 2.0.0, set: {argv: [acp, "{options}"]}, evidence: [{clause: resume.repeated}]}
"""


def test_a_section_of_one_entry_may_be_that_entry() -> None:
    """It says the same as a list of one."""
    plain = SMALL.replace("end:\n  - {", "end:\n  {")
    assert found(plain) == []
    assert Contract(parse(plain, "f")).at("1.0.0") == small().at("1.0.0")


def test_an_entry_may_say_what_changed() -> None:
    """Each change replaces keys from its release on, and says what itself rests on."""
    text = SMALL.replace(LISTED, CHANGED)
    assert found(text) == []
    contracts = [Contract(parse(text, "f")).at(version) for version in ("0.9.0", "1.5.0", "2.0.0")]
    assert [contract.sticky.transport for contract in contracts] == ["none", "acp", "acp"]
    assert [contract.sticky.argv[:1] for contract in contracts] == [(), ("--acp",), ("acp",)]
    assert ["sticky" in contract.unverified for contract in contracts] == [True, False, False]
    with pytest.raises(NotCoveredError, match=r"is known before 1.0.0, 1.0.0 up to but without 2.0.0, 2.0.0 up to"):
        Contract(parse(text, "f")).at("3.0.0")


@pytest.mark.parametrize(
    "old, new, path, message",
    [
        ("since: 2.0.0", "since: 1.0.0", "changes[1].since", "1.0.0 is not after 1.0.0"),
        ("until: 3.0.0", "until: 2.0.0", "until", "2.0.0 is not after 2.0.0"),
        ("argv: [acp", "argv: 3, auto: [acp", "changes[1].set.argv", "3 is not of type 'array'"),
        ("argv: [acp", "agrv: [acp", "changes[1].set.agrv", "unknown key 'agrv'"),
        ("argv: [acp", "same_id: null, argv: [acp", "changes[1]", "'same_id' is a required property"),
        ("argv: [acp", "options: [--x], argv: [acp", "changes[1].set.options[0]", "--x is no declared option"),
        ("once, deny", "always, deny", "changes[0].set.one_time.allow", "always lasts for more than one action"),
        ("evidence: [{clause: resume.accepted}]\n", "note: none\n", "changes[0]", "has no evidence"),
        ("resume.repeated", "resume.repeats", "changes[1].evidence[0]", "there is no clause"),
        ("    - {since: 2.0.0,", "    - {", "changes[1]", "'since' is a required property"),
    ],
)
def test_what_is_wrong_with_a_change_is_told_where_it_stands(old: str, new: str, path: str, message: str) -> None:
    """What an entry becomes is held to what an entry is held to, and each mistake is reported once."""
    assert CHANGED.count(old) == 1
    error = found(SMALL.replace(LISTED, CHANGED.replace(old, new)))[0]
    assert (error.path, bool(error.hint)) == (f"$.sticky.{path}", True)
    assert message in error.message
    assert error.line > line_of(LISTED)


def test_a_mistake_in_an_entry_is_not_repeated_for_each_of_its_changes() -> None:
    """Though it is made at each release."""
    text = CHANGED.replace("transport: none\n  unver", "transport: acp\n  options: [--x]\n  unver")
    assert [error.path for error in found(SMALL.replace(LISTED, text))].count("$.sticky.options[0]") == 1


def test_claims_that_nobody_saw_hold_are_listed() -> None:
    """A section is unverified at a release if a claim that holds there is."""
    assert "launch" in small().at("0.1.0").unverified
    assert "launch" not in small().at("0.140.0").unverified


def test_release_that_nothing_is_said_of_is_not_covered() -> None:
    """Outside every range of a section the contract says so, with the ranges that it knows."""
    contract = small(lambda text: text.replace("  - until: 0.140.0\n", "  - since: 0.100.0\n    until: 0.140.0\n"))
    with pytest.raises(NotCoveredError, match=r"\$.launch: nothing is said of small 0.99.0") as raised:
        contract.at("0.99.0")
    assert "0.100.0 up to but without 0.140.0" in str(raised.value)


@pytest.mark.parametrize("version", ["9z", "banana", "1.2", "", "v1.2.3", "1.2.3\n"])
def test_release_that_is_no_version_is_told(version: str) -> None:
    """What no release can be called is an error of turngate's own, with what to write instead."""
    with pytest.raises(NoVersionError, match=r"is no version of small \(write a release"):
        small().at(version)


def test_optional_section_may_be_absent() -> None:
    """Without a store the handle can't be looked up beforehand, and that is no error."""
    assert small().at().store is None


def test_unknown_engine_names_the_known() -> None:
    """A mistyped engine is an error that lists those there are."""
    with pytest.raises(ContractError, match=r"known engines: .*codex.*gemini"):
        load.contract("kodex")


LEARNED = """
from unittest.mock import patch
from turngate.contract import load
load.prepare()
data = load.contract("codex")
# how msgspec reads what a class holds
with patch("typing._eval_type", side_effect=AssertionError("a class was learned late")):
    data.at()
    load.catalogue.__wrapped__()
"""


def test_classes_are_learned_by_prepare() -> None:
    """After it no conversion reads a class, which two threads at once would not survive."""
    done = subprocess.run((sys.executable, "-c", LEARNED), check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path, shown", [((), "$"), (("a", 0, "b"), "$.a[0].b"), ((3,), "$[3]")])
def test_path_is_shown_as_people_write_it(path: tuple[str | int, ...], shown: str) -> None:
    """A path in a document reads as in JSONPath."""
    assert load.dotted(path) == shown


def test_error_at_an_unknown_place_points_at_the_nearest() -> None:
    """What is missing is told where it should stand."""
    error = parse("a:\n  b: 1\n", "f").error(("a", "c", 0), "nothing here")
    assert str(error) == "f:2:3: $.a.c[0]: nothing here"


def test_error_points_at_the_innermost_part_that_is_there() -> None:
    """Of the parts of a path the deepest one in the file gives the line; an empty file is told at its start."""
    assert str(parse("a:\n  b:\n    c: 1\n", "f").error(("a", "b", "d"), "absent")) == "f:3:5: $.a.b.d: absent"
    assert str(parse("", "f").error(("a",), "absent")) == "f:1:1: $.a: absent"


@pytest.mark.parametrize("key", ["auto", "interactive", "model"])
def test_token_of_a_launch_is_an_option_by_name_or_alias(key: str) -> None:
    """Whatever is passed must be declared, under its name or another, with its value glued to it or not."""
    declared = SMALL.replace("flag: --late,", "flag: --late, aliases: [-l],")
    for token in ("--late", "-l", "--late=1", "word"):
        assert found(declared.replace("    model: []", f"    {key}: [{token}]", 1).replace(*_twice(key))) == []
    broken = declared.replace("    model: []", f"    {key}: [--late, --latest=1]", 1).replace(*_twice(key))
    error = only(broken)
    assert (error.path, error.message) == (f"$.launch[0].{key}[1]", "--latest=1 is no declared option")


def _twice(key: str) -> tuple[str, str, int]:
    """Return what to replace in the first launch of the small contract, so that each key stands there once."""
    old = "    auto: [--auto]\n"
    return (old, "    model: []\n", 1) if key == "auto" else (old, old + "    model: []\n" * (key != "model"), 1)


@pytest.mark.parametrize("dead", ["s00000001", "s12345678"])
def test_dead_session_id_must_have_room_for_a_number(dead: str) -> None:
    """An id that recordings can't number is told where it stands; one with six zeros in a row can hold a number."""
    errors = found(SMALL.replace("nonexistent_id: s00000000", f"nonexistent_id: {dead}"))
    said = [(error.path, error.message, bool(error.hint)) for error in errors]
    assert said == ([] if "000000" in dead else [("$.handle[0].nonexistent_id", "no number can stand in it", True)])


def test_errors_name_what_they_are_about() -> None:
    """An unknown engine and an uncovered release are told by name, the latter with its file and all known ranges."""
    with pytest.raises(ContractError) as unknown:
        load.contract("kodex")
    assert str(unknown.value) == f"no contract for engine 'kodex' (known engines: {', '.join(load.engines())})"
    ranged = SMALL.replace("  - until: 0.140.0\n", "  - since: 0.100.0\n    until: 0.140.0\n")
    with pytest.raises(NotCoveredError) as raised:
        Contract(parse(ranged, "small.yaml")).at("0.99.0")
    assert str(raised.value) == (
        "small.yaml: $.launch: nothing is said of small 0.99.0: "
        "launch is known 0.100.0 up to but without 0.140.0, from 0.140.0"
    )


@pytest.mark.parametrize(
    "shape, message",
    [
        ("s0{8}", "no number can stand in it"),
        ("s[0-9]{8}|--[a-z]", "admits a value that looks like a flag"),
        ("s[0-9]{8}|--[A-Z]", None),
    ],
)
def test_shape_leaves_room_for_numbers_and_none_for_flags(shape: str, message: str | None) -> None:
    """The shape of session ids is tried with a numbered id and with a flag, which is written in small letters."""
    errors = found(SMALL.replace("shape: 's[0-9]{8}'", f"shape: '{shape}'"))
    assert [error.message for error in errors] == ([message] if message else [])


@pytest.mark.parametrize(
    "old, new, hint",
    [
        (
            "value: none, since: 0.140.0",
            "value: none, since: 0.140.0, until: 0.1.0",
            "`until` is the first release that the claim no longer holds for",
        ),
        ("until: 0.140.0\n", "until: 0.141.0\n", "give the entries of this section ranges that do not meet"),
        ("(?P<version>.+)", "(.+)", r"such as (?P<version>\S+)"),
        ("clause: stdin.open", "clause: stdin.shut", "see clauses.yaml"),
        ("clause: stdin.open", "clause: handle.present", "a release that misses it is broken"),
        ("    model: []\n    unverified", "    model: [--x]\n    unverified", "declare it under `options`"),
        ("nonexistent_id: s00000000", "nonexistent_id: s0000000", "the shape is s[0-9]{8}"),
        (
            "nonexistent_id: s00000000",
            "nonexistent_id: s12345678",
            "recordings number session ids in its last run of at least six zeros",
        ),
    ],
)
def test_what_is_told_of_a_meaning_comes_with_its_remedy(old: str, new: str, hint: str) -> None:
    """Each error that no schema finds says what to write instead."""
    assert SMALL.count(old) == 1
    assert found(SMALL.replace(old, new))[0].hint == hint


def test_contract_without_deviations_is_whole() -> None:
    """A section that may be empty may be absent."""
    assert found(SMALL[: SMALL.index("deviations:")]) == []


def test_place_of_releases_is_told_where_there_is_one() -> None:
    """An engine that npm has is installed from there; the small one is nowhere."""
    assert load.contract("codex").at().npm
    assert small().at().npm is None


@pytest.mark.parametrize("engine", load.engines())
def test_packaged_contracts_read_the_same_either_way(engine: str) -> None:
    """Data and places are those that the thorough reader gives."""
    assert load.contract(engine).document == load.read(contract_files()[engine], f"engines/{engine}.yaml")
