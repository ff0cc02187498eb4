import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.longer import LEFT_TO_NIGHT
from tests.tables import each
from turngate.contract import load
from turngate.model import MAX_NAME, MAX_NAMES, MAX_PROMPT, Interaction, Repair
from turngate.strict_json import MAX_DEPTH, flaw
from turngate.turn import envelope as envelope_module
from turngate.turn.envelope import (
    KINDS,
    MAX_TEXT,
    BadEnvelope,
    Envelope,
    json_object,
    read_envelope,
    validated,
)

QUESTION: dict[str, Any] = {
    "outcome": "ask_user",
    "interaction": {
        "kind": "choose_one",
        "prompt": "Which colour?",
        "options": ["red", "blue"],
        "required_fields": [],
        "context": {},
    },
}
FINAL: dict[str, Any] = {"outcome": "final", "final_data": {"colour": "blue"}}
ASKED, SAID = json.dumps(QUESTION), json.dumps(FINAL)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
LONG = (["x"] * MAX_NAMES, ["x"] * (MAX_NAMES + 1), ["é" * MAX_NAME], ["y", "x" * (MAX_NAME + 1)])
NAMES = st.lists(TEXT | st.just(1), max_size=2) | st.sampled_from(LONG)
FIELDS = {
    "kind": st.sampled_from((*KINDS, "choice")) | VALUES,
    "prompt": st.sampled_from(("Which?", "", "é" * MAX_PROMPT, "x" * (MAX_PROMPT + 1))) | VALUES,
    "options": NAMES | VALUES,
    "required_fields": NAMES | VALUES,
    "context": st.just({}) | VALUES,
}
PROSE = st.text(max_size=30).filter(lambda text: "{" not in text)


def detail(text: str) -> str:
    """Read a text that must hold an invalid envelope; return what is wrong with it."""
    envelope = read_envelope(text)
    assert isinstance(envelope, BadEnvelope), envelope
    return envelope.detail


def test_question_in_full() -> None:
    """Every field of a question comes through."""
    asked = Interaction("choose_one", "Which colour?", ("red", "blue"), (), {})
    assert read_envelope(ASKED) == Envelope(asked, None, Repair.NONE)


@given(st.dictionaries(TEXT, VALUES, max_size=4), st.sampled_from((None, 1)), st.booleans())
def test_final_data_comes_through(data: dict[str, Any], indent: int | None, ascii_: bool) -> None:  # noqa: FBT001
    """Final data of any kind is read unchanged."""
    text = json.dumps({"outcome": "final", "final_data": data}, indent=indent, ensure_ascii=ascii_)
    assert read_envelope(text) == Envelope(None, data, Repair.NONE)


@pytest.mark.parametrize("fence", ["```json\n{}\n```", "```\n{}```", " \n```JSON  \n{}\n  ```\n "])
def test_fence_is_stripped(fence: str) -> None:
    """A code fence around the whole answer is removed, and that is reported."""
    assert read_envelope(fence.replace("{}", SAID)) == Envelope(None, FINAL["final_data"], Repair.FENCE_STRIPPED)


@given(PROSE, PROSE)
def test_envelope_is_found_in_prose(before: str, after: str) -> None:
    """An envelope within prose is found, also if it occurs several times unchanged."""
    expected = Envelope(None, FINAL["final_data"], Repair.EMBEDDED_OBJECT)
    assert read_envelope(f"a{before}{SAID}{after}") == expected
    assert read_envelope(f"a{before}{SAID}{after}{SAID}") == expected


def test_same_envelope_written_differently_is_one() -> None:
    """Envelopes are equal whatever the order of their keys and the space between them."""
    again = json.dumps(dict(reversed(FINAL.items())), indent=3)
    assert isinstance(read_envelope(f"{SAID} and {again}"), Envelope)


@each(
    "other",
    [ASKED, SAID.replace("blue", "red"), '{"outcome": "final"}', '{"outcome": null}', SAID.replace('"blue"', "1")],
)
def test_differing_envelopes_are_an_error(other: str) -> None:
    """Several different envelopes are an error, also a valid one next to an invalid one, in any order."""
    assert "differ" in detail(f"{SAID} or {other}")
    assert "differ" in detail(f"{other} or {SAID}")


def test_one_and_true_differ() -> None:
    """Values that are equal in Python, such as 1 and true, are different data."""
    one = json.dumps({"outcome": "final", "final_data": {"yes": 1}})
    assert "differ" in detail(f"{one} {one.replace('1', 'true')}")


@each(
    "text",
    [
        "",
        "no envelope",
        'the "outcome" is good',
        '"outcome"',
        '["outcome"]',
        json.dumps({"result": FINAL}),
        json.dumps(SAID),
        json.dumps([1, 2, "outcome"]),
        '{"outcomes": "final"}',
        SAID[1:],
        f"[{SAID}]",
        f"```json\n[{SAID}]\n```",
        f"So: [1, {SAID}].",
        f"So: [[{ASKED}], {SAID}].",
        f"So: [[1, {ASKED}], {SAID[:-1]}}}]",
        f'{{"result": {SAID},}}',
        f'{{"note": "{{", "result": {SAID}',
        '{"outcome"}',
        '{"a": "outcome", }',
        "{'outcome': 'final', 'final_data': {}}",
        '"outcome": {"',
    ],
)
def test_text_without_envelope_holds_none(text: str) -> None:
    """Prose, other data, and an object within another object or a list are not envelopes."""
    assert read_envelope(text) is None


@each("form", ["{}", "```json\n{}\n```", "So: {} Done.", 'Not {"this: {}', "[1] [x] {}"])
@each("envelope", [ASKED, SAID, json.dumps(FINAL, indent=2), json.dumps(dict(reversed(FINAL.items())))])
def test_object_that_can_not_be_read_is_a_bad_envelope(form: str, envelope: str) -> None:
    """An envelope that is cut off, has a comma too many or other faults is invalid, wherever it is in the answer."""
    assert isinstance(read_envelope(form.replace("{}", envelope)), Envelope)
    faults = (
        envelope[:-1],
        f"{envelope[:-1]},}}",
        f"{envelope[:-1]} x}}",
        f"{envelope[:-1]}]",
        f"{{{envelope[1:-1]}\n//",
    )
    for fault in faults:
        assert detail(form.replace("{}", fault)).startswith("the envelope")
        assert detail(f"{form.replace('{}', fault)} {SAID}").startswith("the envelope")


@given(st.sampled_from((ASKED, SAID)), st.integers(0, 200), PROSE)
def test_envelope_that_is_cut_off_is_a_bad_one(envelope: str, at: int, before: str) -> None:
    """An envelope that is cut off anywhere behind its first key is invalid."""
    cut = envelope[: min(len('{"outcome"') + at, len(envelope) - 1)]
    assert detail(cut) == detail(before + cut) == "the envelope is cut off"


def test_fault_is_shown() -> None:
    """The detail says where an envelope that can't be read ends, in characters from 1."""
    assert detail(f"So: {SAID[:-1]}, }}") == (
        "the envelope isn't valid JSON: it breaks off before '}', at character 60"
    )


@each(
    "place, value",
    [
        ("outcome", "done"),
        ("outcome", None),
        ("outcome", 1),
        ("outcome", ["final"]),
        ("outcome", {}),
        ("interaction", None),
        ("interaction", []),
        ("interaction", "Which?"),
        ("interaction", {}),
        ("final_data", {}),
        ("x", 1),
        ("interaction.kind", "choice"),
        ("interaction.kind", None),
        ("interaction.kind", ["confirm"]),
        ("interaction.prompt", ""),
        ("interaction.prompt", " \n\u00a0"),
        ("interaction.options", ["red", " "]),
        ("interaction.required_fields", ["\t"]),
        ("interaction.prompt", None),
        ("interaction.prompt", 3),
        ("interaction.options", "red"),
        ("interaction.options", [1]),
        ("interaction.options", []),
        ("interaction.options", [""]),
        ("interaction.options", None),
        ("interaction.required_fields", {}),
        ("interaction.required_fields", [None]),
        ("interaction.context", None),
        ("interaction.context", []),
        ("interaction.id", "own"),
    ],
)
def test_wrong_value_in_a_question_is_an_error(place: str, value: object) -> None:
    """A mistyped, unknown or empty field of a question is an error, in prose too."""
    broken = json.loads(ASKED)
    parent, _, key = place.rpartition(".")
    (broken[parent] if parent else broken)[key] = value
    assert "$" in detail(json.dumps(broken))
    assert detail(f"So: {json.dumps(broken)}")


@each("field", ["kind", "prompt", "options", "required_fields", "context"])
def test_missing_field_of_a_question_is_an_error(field: str) -> None:
    """A question without one of its required fields is an error that names the field."""
    broken = json.loads(ASKED)
    del broken["interaction"][field]
    assert f"'{field}' is a required property" in detail(json.dumps(broken))


@pytest.mark.parametrize("place", ["", "interaction"])
def test_many_unknown_keys_hide_no_known_one(place: str) -> None:
    """The error names the first unknown keys, and does not miss a key that stands behind them."""
    broken = json.loads(ASKED)
    inner = broken[place] if place else broken
    known = dict(inner)
    inner.clear()
    inner |= {f"unknown{number:02}": 1 for number in range(20)} | known
    assert re.search(r"Additional properties .*'unknown00', .*'unknown09' were unexpected", detail(json.dumps(broken)))


@given(st.data())
def test_validity_is_that_of_the_schema(data: st.DataObject) -> None:
    """The hand-written check accepts exactly the envelopes that the schema accepts."""
    asked = {**QUESTION["interaction"], "kind": data.draw(st.sampled_from(KINDS))}
    for field in data.draw(st.sets(st.sampled_from([*FIELDS, "id"]), max_size=2)):
        asked[field] = data.draw(FIELDS.get(field, VALUES))
    for field in data.draw(st.sets(st.sampled_from([*FIELDS]), max_size=1)):
        del asked[field]
    envelope = {"outcome": data.draw(st.sampled_from(("ask_user", "final")) | VALUES)}
    parts = {"interaction": st.just(asked) | VALUES, "final_data": st.just({}) | VALUES}
    for part in data.draw(st.sampled_from((["interaction"], ["final_data"], [*parts], []))):
        envelope[part] = data.draw(parts[part])
    error = load.first_error("envelope", envelope)
    assert (validated(envelope, Repair.NONE) is not None) == (error is None)
    if "outcome" in envelope and not flaw(envelope):
        read = read_envelope(json.dumps(envelope))
        assert isinstance(read, BadEnvelope if error else Envelope)
        # the message is made for an outline of the data, and lists that are too long are seen first
        if isinstance(read, BadEnvelope) and error and "at most 100" not in read.detail:
            assert read.detail.partition(":")[0] == error.partition(":")[0]


@pytest.mark.parametrize("name", ["options", "required_fields"])
def test_a_list_that_is_too_long_is_not_looked_at(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named with its length, in prose too, before any check that takes longer for more entries."""
    for slow in ("flaw", "validated", "load"):
        monkeypatch.setattr(envelope_module, slow, None)
    asked = QUESTION["interaction"] | {name: [f"o{number}" for number in range(100_000)]}
    text = json.dumps({"outcome": "ask_user", "interaction": asked})
    said = f"$.interaction.{name}: 100000 entries, but at most {MAX_NAMES} are allowed"
    assert detail(text) == detail(f"So: {text}") == said


@pytest.mark.parametrize(
    "data",
    [
        {"outcome": "x" * 10**6, "more": [1] * 10**5},
        {"outcome": "ask_user", "interaction": dict.fromkeys(map(str, range(10**5)), 1)},
        {"outcome": "ask_user", "interaction": QUESTION["interaction"] | {"options": [["x" * 1000] * 10] * 100}},
        {"outcome": "ask_user", "interaction": QUESTION["interaction"] | {"prompt": 1, "context": {"x" * 10**6: [1]}}},
        {"outcome": "final", "final_data": [{"a": [1] * 10**4}] * 50},
    ],
)
def test_an_error_message_is_made_for_little_data(data: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The schema, whose messages take long for much data, gets an outline, and the error is the same."""
    given_to_schema: list[Any] = []

    def noted(name: str, value: Any) -> str | None:
        given_to_schema.append(value)
        return first_error(name, value)

    first_error = load.first_error
    monkeypatch.setattr(load, "first_error", noted)
    place = (first_error("envelope", data) or "").partition(":")[0]
    assert detail(json.dumps(data)).partition(":")[0] == place
    assert all(len(json.dumps(value)) < 2 * MAX_PROMPT for value in given_to_schema)


@each("kind", ["choose_one", "confirm", "fill_fields", "open_text", "risk_ack"])
def test_each_kind_of_question_is_known(kind: str) -> None:
    """All five kinds of question are accepted, with options and fields."""
    asked = {**QUESTION["interaction"], "kind": kind, "required_fields": ["name"], "context": {"a": {"b": [1]}}}
    envelope = read_envelope(json.dumps({"outcome": "ask_user", "interaction": asked}))
    assert isinstance(envelope, Envelope)
    assert envelope.interaction
    assert (envelope.interaction.kind, envelope.interaction.context) == (kind, {"a": {"b": [1]}})


def test_form_without_fields_is_an_error() -> None:
    """A form without fields is an error."""
    assert "$.interaction.required_fields" in detail(ASKED.replace("choose_one", "fill_fields"))


@each("data", ["null", "[]", '"text"', "1", "true"])
def test_final_data_is_an_object(data: str) -> None:
    """Final data that is no object is an error."""
    assert "$.final_data" in detail(f'{{"outcome": "final", "final_data": {data}}}')


@each(
    "data, why",
    [
        ('{"x": NaN}', "isn't valid JSON"),
        ('{"x": [-Infinity]}', "isn't valid JSON"),
        ('{"x": 1e999}', "isn't valid JSON"),
        ('{"x": "\\ud83d"}', "surrogate"),
        ('{"\\udc00": 1}', "surrogate"),
        ('{"x": 1, "x": 1}', "occurs twice"),
        ('{"x": {"y": [{"z": 1, "z": 2}]}}', "occurs twice"),
        ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), "deep"),
        ('{"x":' + "[" * 300 + "]" * 300 + "}", "deep"),
        ('{"x":' + '{"x":' * 900 + "1" + "}" * 901, "deep"),
    ],
)
def test_data_that_can_not_be_passed_on_is_an_error(data: str, why: str) -> None:
    """Data that is ambiguous or can't be written as JSON is an error, and raises nothing."""
    envelope = f'{{"outcome": "final", "final_data": {data}}}'
    assert why in detail(envelope)
    assert why in detail(f"So: {envelope}.")
    assert json_object(envelope) is None


def test_outcome_that_stands_twice_is_an_error() -> None:
    """An envelope with two outcomes is an error."""
    assert "occurs twice" in detail('{"outcome": "final", "outcome": "ask_user", "final_data": {}}')


def test_escaped_key_is_the_same_key() -> None:
    """An envelope is recognized even if its key is spelled with an escape."""
    assert isinstance(read_envelope(SAID.replace("outcome", "\\u006futcome")), Envelope)


def large(parts: int) -> list[str]:
    """Return texts that take long to read, each of about a million characters divided by `parts`."""
    return [
        '"outcome"' + '{"' * (MAX_TEXT // parts // 2 - 8),
        '"outcome"' + '{"a":' * (200_000 // parts),
        '"outcome"' + '{"a":[' + "1," * (500_000 // parts),
        '{"outcome":' * (100_000 // parts),
        "{" + "".join(f'"k{number}":1,' for number in range(250_000 // parts)) + '"k1":1,"outcome":"final"}',
        '"outcome"' + "[1," * (1_000_000 // parts),
        '"outcome"' + '["[",' * (500_000 // parts),
        "[" + '{"outcome":1},' * (200_000 // parts),
        '"outcome"' + '{"[":{' * (500_000 // parts),
    ]


@pytest.mark.parametrize(
    "text",
    [
        '{"outcome": "' + "x" * 1_000_000,
        '```\n"outcome"' + " " * 1_000_000 + "x",
        '"outcome"' + "{" * 1_000_000,
        '"outcome" {' + " " * 1_000_000,
        '{"outcome": ' + "1" * 5_000 + "}",
        'x {"outcome": ' + "1" * 5_000 + "}",
        SAID + "x" * MAX_TEXT,
        ASKED.replace('"red"', '"",' * 1_300_000 + '"red"'),
        pytest.param(ASKED.replace("{}", f"[{'1,' * 1_900_000}1]"), marks=LEFT_TO_NIGHT),
        ASKED.replace('"red"', f'"{"x" * 4_000_000}"'),
        ASKED.replace('"red"', '"red",' * 1_600_000 + '"red"'),
        '"outcome"{"{"' + ':":",",' * 500_000,
        *large(20),
        *(pytest.param(text, marks=LEFT_TO_NIGHT) for text in large(1)),
    ],
    ids=lambda text: text[:16],
)
def test_hostile_text_is_read_in_time(text: str) -> None:
    """Text that is made to slow the reader down is rejected within seconds, without an exception."""
    assert not isinstance(read_envelope(text), Envelope)


@given(
    st.one_of(
        st.text(max_size=60),
        st.lists(
            st.sampled_from(
                (
                    '{"outcome":',
                    '"final"',
                    "{",
                    "}",
                    "[",
                    "]",
                    ",",
                    '"',
                    "\\",
                    '"final_data":',
                    "{}",
                    "```",
                    "\n",
                    "NaN",
                    SAID,
                    "\ud800",
                )
            ),
            max_size=10,
        ).map("".join),
    )
)
def test_no_text_makes_the_reader_raise(text: str) -> None:
    """Any text is a valid envelope, an invalid one, or none; nothing is raised."""
    envelope = read_envelope(text)
    assert envelope is None or isinstance(envelope, Envelope | BadEnvelope)
    assert json_object(text) is None or "{" in text


@each(
    "text, data",
    [
        ('{"a": 1}', {"a": 1}),
        ("{}", {}),
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ('So: {"a": 1}', None),
        ("[1]", None),
        ("text", None),
        ("", None),
        ("``````", None),
    ],
)
def test_json_object_is_the_whole_answer(text: str, data: dict[str, int] | None) -> None:
    """An answer that is one JSON object, with or without a fence, becomes that object; any other is text."""
    assert json_object(text) == data


def test_answer_may_be_as_long_as_the_limit() -> None:
    """An envelope in a text of exactly the maximum length is found; with one more character it is too long."""
    assert isinstance(read_envelope(SAID.ljust(MAX_TEXT)), Envelope)
    assert (
        detail(SAID.ljust(MAX_TEXT + 1)) == f"an answer of {MAX_TEXT + 1} characters is too long to contain an envelope"
    )


@pytest.mark.parametrize("opening, closing", [("[", "]"), ('{"x":', "}")])
def test_data_may_be_nested_as_deep_as_the_limit(opening: str, closing: str) -> None:
    """Data nested to exactly the maximum depth is read; one level more is an error."""
    for levels, deep in ((MAX_DEPTH - 2, False), (MAX_DEPTH - 1, True)):
        data = f'{{"x": {opening * levels}1{closing * levels}}}'
        envelope = read_envelope(f'{{"outcome": "final", "final_data": {data}}}')
        assert isinstance(envelope, BadEnvelope) is deep


def test_envelope_far_into_a_long_answer_is_found() -> None:
    """An envelope after long prose is found, even if the prose holds braces."""
    assert isinstance(read_envelope('{"not json} ' * 5_000 + "so: " + SAID), Envelope)


@each("form", ["{}", "```json\n{}\n```", "So: {}"])
@each("data", ['{"note": "caf\\u00e9"}', '{"note": "no \\"outcome\\" yet"}'])
def test_object_without_outcome_is_no_envelope(form: str, data: str) -> None:
    """Data that only resembles an envelope is ignored, with or without a fence."""
    assert read_envelope(form.replace("{}", data)) is None
