from contextlib import suppress
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.tables import each
from turngate.contract.load import parse
from turngate.errors import ContractError

# each line holds the one before ten times
BOMB = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10)
)


@each(
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


@each(
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
        ("a: \0\n", "f", "not allowed"),
        ("a: \udcff\n", "f", ""),
    ],
)
def test_broken_yaml_is_reported_with_its_place(text: str, place: str, message: str) -> None:
    """A syntax error, a duplicate key or an unsupported construct is reported with file, line and column."""
    assert_refused(text, place, message)


@each(
    "text, told",
    [
        (
            "a: b: c",
            "f:1:5: a value contains a colon and a space, or this line is indented too far (put the value in quotes,",
        ),
        ("a: 1\n b: 2", "f:2:3: a value contains a colon and a space, or this line is indented too far"),
        ("a:\tb", "f:1:3: YAML doesn't allow a tab here (use spaces)"),
        ('a: "b\nc: 1', "f:2:5: a quotation mark is missing (close the quotes that begin in line 1)"),
        (
            "a:\n  b: [1\n  c: 2",
            "f:3:4: a bracket is not closed, or a comma is missing (close the bracket that begins in line 2",
        ),
        ("a:\n  - 1\n  b: 2", "f:3:3: this doesn't fit the list or mapping that begins in line 2 (indent the line"),
        ("a: 1\nb\nc: 2", "f:3:1: this line has no `key: value` (add the colon and the value"),
        ('a: "\\d"', "f:1:6: this is no escape sequence in double quotes (use single quotes"),
        ("a: @b", "f:1:4: a value can't begin with this character (put the value in quotes)"),
        ("a: |{b}", "f:1:5: expected chomping or indentation indicators, but found '{' (fix the YAML syntax)"),
    ],
)
def test_a_mistake_in_yaml_is_told_in_plain_words(text: str, told: str) -> None:
    """What is wrong where, and what to do; what only the parser knows has its words."""
    with pytest.raises(ContractError) as raised:
        parse(text, "f")
    assert str(raised.value).startswith(told)


@pytest.mark.long
@each(
    "text, place, message",
    [
        (BOMB, "f:1:34: $.a4[3][3][8][8][8]", "more than 50000 values"),
        (f"a: &a {'x' * 100_000}\nb: [{'*a, ' * 50}]\n", "f:1:4: $.b[40]", "more than 4194304 characters"),
        ("a: 1\n#" + "x" * 300_000, "f:2:262140", "longer than 256 KiB"),
        ("[" * 100_000, "f", "nested too deeply"),
    ],
)
def test_yaml_of_a_hostile_size_is_reported_with_its_place(text: str, place: str, message: str) -> None:
    """Aliases that multiply, a long text and deep nesting are refused the same way."""
    assert_refused(text, place, message)


def assert_refused(text: str, place: str, message: str) -> None:
    """Assert that a text is refused at a place, with a message and a hint."""
    with pytest.raises(ContractError) as raised:
        parse(text, "f")
    assert str(raised.value).startswith(f"{place}: ")
    assert message in raised.value.what
    assert raised.value.hint or "key" in message
