"""Tests of the parts in which a source file is shown."""

import time

import pytest

from turngate_reference.server.web.page.colours import Part, parts


@pytest.mark.parametrize(
    "path, text, expected",
    [
        (
            "a/paint.py",
            'def paint(x1):  # it\'s\n    return "a\\"b" + 12\n',
            ["keyword def", "comment # it's", "keyword return", 'string "a\\"b"', "number 12"],
        ),
        (
            "door.ts",
            "const a = 'x'; /* two\nlines */ // end\nfoo(`a\nb`)",
            ["keyword const", "string 'x'", "comment /* two\nlines */", "comment // end", "string `a\nb`"],
        ),
        ("q.sql", "a -- why\n", ["comment -- why"]),
        ("Dockerfile", "# base\nRUN x#y\n", ["comment # base"]),
        ("note.txt", 'if it isn\'t "code" # no\n', []),
        ("run.sh", "echo don't if\n", ["keyword if"]),
        ("open.py", '"""never\nends', ['string """never\nends']),
    ],
)
def test_comments_strings_numbers_and_keywords_are_parts(path: str, text: str, expected: list[str]) -> None:
    """The name of the file decides what a comment is, and a file of another kind has no parts."""
    found = parts(path, text)
    assert [f"{part.kind} {part.text}" for part in found if part.kind] == expected
    assert "".join(part.text for part in found) == text


@pytest.mark.parametrize("unit", ['"', '"\\', "/*", "'", "`\\", '"""', "# ", "//", "9.", "a"])
def test_the_time_grows_with_the_length_alone(unit: str) -> None:
    """No text of the largest size that is shown takes seconds of processor time, and none is lost."""
    text = unit * (128 * 2**10 // len(unit))
    begun = time.process_time()
    for path in ("a.ts", "a.py"):
        assert "".join(part.text for part in parts(path, text)) == text
    assert time.process_time() - begun < 5


def test_an_empty_file_has_one_empty_part_at_most() -> None:
    """Nothing is made of nothing."""
    assert parts("a.py", "") == []
    assert parts("a.txt", "") == [Part("", "")]
