import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.contracts.contract.small import SMALL, mistakes_in, small
from turngate.contract import load
from turngate.contract.load import Contract, parse
from turngate.errors import ContractError, NotCoveredError, NoVersionError
from turngate.files import contract_files


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
    """Only null, true, false and plain integers are not text, so a version keeps its last zero."""
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
    """Data written as YAML is read back unchanged."""
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
    """The reader raises only contract errors, whatever the text."""
    with suppress(ContractError):
        assert parse(text, "some.yaml").file == "some.yaml"


@pytest.mark.parametrize(
    "text, place, message",
    [
        ("a: 1\nb:\n  c: 1\n  c: 2\n", "f:4:3: $.b", "key 'c' occurs twice"),
        ("a: 1\n'a': 1\n", "f:2:1: $", "key 'a' occurs twice"),
        ("a: {b: 1, b: 1}\n", "f:1:11: $.a", "key 'b' occurs twice"),
        ("- a: 1\n- b: 1\n  b: 1\n", "f:3:3: $[1]", "key 'b' occurs twice"),
        ("? [a]\n: 1\n", "f:1:3: $", "a key must be text"),
        ("a: [1\nb: 2\n", "f:2:2", ""),
        ("a:\n\t- 1\n", "f:2:1", ""),
        ("a: *none\n", "f:1:4", "undefined alias"),
        ("a: 1\n---\nb: 1\n", "f:2:1", ""),
        ("a: !!int x\n", "f:1:4: $.a", "not an integer"),
        ("a: " + "9" * 5000, "f:1:4: $.a", "not an integer"),
        ("a: &a [*a]\n", "f", "alias"),
        ("[" * 100_000, "f", "nested too deeply"),
        ("a: \0\n", "f", "not allowed"),
        ("a: \udcff\n", "f", ""),
    ],
)
def test_broken_yaml_is_reported_with_its_place(text: str, place: str, message: str) -> None:
    """A syntax error, a duplicate key or an unsupported construct is reported with file, line and column."""
    with pytest.raises(ContractError) as raised:
        parse(text, "f")
    assert str(raised.value).startswith(f"{place}: ")
    assert message in raised.value.message
    assert raised.value.hint or "key" in message


def test_file_that_is_no_utf_8_is_a_contract_error(tmp_path: Path) -> None:
    """A file that isn't valid UTF-8 is a contract error that says so."""
    file = tmp_path / "latin.yaml"
    file.write_bytes(b"title: caf\xe9\n")
    with pytest.raises(ContractError, match=r"latin\.yaml"):
        load.read(file)


def test_claims_are_chosen_by_version() -> None:
    """Each release gets the claims of its range; without a version the newest claims are used."""
    contract = small()
    assert contract.at("0.139.9").launch.start[0] == "old"
    assert contract.at("0.140.0").launch.start[0] == "new"
    assert contract.at().launch.start[0] == "new"
    assert [option.flag for option in contract.at("0.139.9").options] == ["--auto"]
    assert [option.flag for option in contract.at("1.0.0").options] == ["--auto", "--late"]
    assert contract.at("1.0.0").version == "1.0.0"


def test_a_section_of_one_entry_may_be_that_entry() -> None:
    """A section with one entry may be written without a list."""
    plain = SMALL.replace("end:\n  - {", "end:\n  {")
    assert mistakes_in(plain) == []
    assert Contract(parse(plain, "f")).at("1.0.0") == small().at("1.0.0")


def test_claims_that_nobody_saw_hold_are_listed() -> None:
    """A section is unverified at a release if one of its claims there is."""
    assert "launch" in small().at("0.1.0").unverified
    assert "launch" not in small().at("0.140.0").unverified


@pytest.mark.parametrize("version", ["9z", "banana", "1.2", "", "v1.2.3", "1.2.3\n"])
def test_release_that_is_no_version_is_reported(version: str) -> None:
    """An invalid version is an error with a hint of what to write."""
    with pytest.raises(NoVersionError, match=r"isn't a version of small \(write the version"):
        small().at(version)


def test_optional_section_may_be_absent() -> None:
    """A contract without a store is valid; session ids can't be looked up then."""
    assert small().at().store is None


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
    """After `prepare` no conversion inspects a class, which would not be thread-safe."""
    done = subprocess.run((sys.executable, "-c", LEARNED), check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path, shown", [((), "$"), (("a", 0, "b"), "$.a[0].b"), ((3,), "$[3]")])
def test_path_is_shown_as_people_write_it(path: tuple[str | int, ...], shown: str) -> None:
    """Paths in a document are written as in JSONPath."""
    assert load.dotted(path) == shown


def test_error_points_at_the_innermost_part_that_is_there() -> None:
    """The line of an error is that of the deepest existing part of the path; an empty file has line 1."""
    assert str(parse("a:\n  b:\n    c: 1\n", "f").error(("a", "b", "d"), "absent")) == "f:3:5: $.a.b.d: absent"
    assert str(parse("", "f").error(("a",), "absent")) == "f:1:1: $.a: absent"


def test_errors_name_what_they_are_about() -> None:
    """The error names the unknown engine, or the uncovered release with its file and known ranges."""
    with pytest.raises(ContractError) as unknown:
        load.contract("kodex")
    assert str(unknown.value) == "no contract for engine 'kodex' (did you mean codex?)"
    ranged = SMALL.replace("  - until: 0.140.0\n", "  - since: 0.100.0\n    until: 0.140.0\n")
    with pytest.raises(NotCoveredError) as raised:
        Contract(parse(ranged, "small.yaml")).at("0.99.0")
    assert str(raised.value) == (
        "small.yaml: $.launch: the contract doesn't cover small 0.99.0: "
        "`launch` covers 0.100.0 up to but without 0.140.0, from 0.140.0"
    )


@pytest.mark.parametrize("engine", load.engine_names())
def test_packaged_contracts_read_the_same_either_way(engine: str) -> None:
    """The fast reader gives the same data and positions as the thorough one."""
    assert load.contract(engine).document == load.read(contract_files()[engine], f"engines/{engine}.yaml")


@pytest.mark.parametrize("section", ["title", "launch", "sticky"])
def test_contract_that_lacks_a_section_is_an_error_with_its_place(section: str) -> None:
    """An incomplete contract that was not validated fails with the same error as in `turngate contracts check`."""
    document = parse(re.sub(rf"^{section}:.*\n([ -].*\n)*", "", SMALL, flags=re.MULTILINE), "small.yaml")
    with pytest.raises(ContractError) as raised:
        Contract(document).at()
    assert (raised.value.file, raised.value.path, bool(raised.value.hint)) == ("small.yaml", "$", True)
    assert raised.value.message == f"{section!r} is a required property"


def test_a_release_that_no_claim_covers_has_no_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    """A release without claims, or with an unreadable version, has no contract."""
    ranged = SMALL.replace("  - until: 0.140.0\n", "  - since: 0.100.0\n    until: 0.140.0\n")
    contract = Contract(parse(ranged, "small.yaml"))
    monkeypatch.setattr(load, "contract", lambda _: contract)
    assert load.covering("small", "0.99.0") is None
    assert load.covering("small", "no version") is None
    assert load.covering("small", "0.120.0") == contract.at("0.120.0")
