import pytest

from tests.contracts.contract.small import SMALL, mistakes_in, only_mistake
from tests.tables import each

END = "  - {stream: stdout, unverified: true}\n"
FINAL = "  - {stream: stdout, field: text, unverified: true}\n"
PLACE = "stream: stdout, record: first, field: id,"
EVENTS = "stream: stdout, field: type, names: [a]"


@each(
    "old, new, path, message",
    [
        (PLACE, PLACE.replace("stdout", "stderr"), "$.handle[0].stream", "is framed as text, so it has no records"),
        (EVENTS, EVENTS.replace("stdout", "stderr"), "$.events[0].stream", "is framed as text, so it has no records"),
        (END, END.replace("stdout", "stderr"), "$.end[0].stream", "is framed as text, so it has no records"),
        (FINAL, FINAL.replace("stdout", "stderr"), "$.final[0].field", "framed as text, so all of it is the answer"),
        (FINAL, FINAL.replace("field: text, ", ""), "$.final[0]", "names no field of the records on stdout"),
    ],
)
def test_a_rule_that_no_record_can_meet_is_reported(old: str, new: str, path: str, message: str) -> None:
    """A stream without records and an answer without a place are reported, with a remedy."""
    assert SMALL.count(old) == 1
    error = only_mistake(SMALL.replace(old, new))
    assert (error.path, error.line > 1, bool(error.hint)) == (path, True, True)
    assert message in error.what


@pytest.mark.parametrize(
    "old, new",
    [
        (END, END.replace("out,", "out, match: {type: a},")),
        (FINAL, FINAL.replace("out, field: text", "err")),
        (FINAL, FINAL.replace("field: text", "field: content.0.text")),
        (EVENTS, "stream: stdout, names: [a]"),
    ],
)
def test_a_rule_that_a_record_can_meet_is_valid(old: str, new: str) -> None:
    """A rule for records, a whole text and a path into a list are valid."""
    assert mistakes_in(SMALL.replace(old, new)) == []


@each("path", ["a..b", ".a", "a.", "."])
@each(
    "old, new",
    [
        (PLACE, PLACE.replace("id,", "'@',")),
        (FINAL, FINAL.replace("text", "'@'")),
        (FINAL, FINAL.replace("text", "text, group: '@'")),
        (END, END.replace("out,", "out, match: {'@': a},")),
        (EVENTS, EVENTS.replace("type", "'@'")),
        ("deviations:", "failures:\n  - {stream: stdout, has: '@', unverified: true}\ndeviations:"),
        ("deviations:", "failures:\n  - {stream: stdout, message: '@', unverified: true}\ndeviations:"),
        ("transport: none", "transport: app_server, argv: [x], interactive: {expect: {'@': a}}"),
    ],
)
def test_a_path_with_an_empty_step_is_reported(path: str, old: str, new: str) -> None:
    """A path without a name between its dots can lead nowhere, in any section."""
    assert SMALL.count(old) == 1
    (error, *_) = mistakes_in(SMALL.replace(old, new.replace("@", path)))
    assert "does not match" in error.what
    assert "path" in error.hint.lower()
