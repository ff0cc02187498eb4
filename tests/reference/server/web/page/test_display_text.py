"""Tests of how foreign text is displayed."""

import os
from pathlib import Path

from turngate_reference.server.web.page.display_text import (
    MAX_OUTPUT,
    OutputTail,
    as_json,
    displayed,
    moment,
    outputs,
    sentence,
)


def test_a_text_is_bounded_and_visible() -> None:
    """Line breaks and tabs stay, invisible characters are named, and cut text is counted."""
    assert displayed("a\n\tb\x1b\u202e\u200d") == "a\n\tb\\x1b\\u202e\u200d"
    assert len(displayed("\x00" * 10_000, 400)) < 460
    assert "characters left out" in displayed("a" * 5000)


def test_a_message_is_a_sentence() -> None:
    """It begins with a capital letter, unless with a name, and ends with one full stop."""
    shown = {
        "the server failed; its log says how": "The server failed; its log says how.",
        "can't": "Can't.",
        "workspace: must be text": "workspace: must be text.",
        "query.skip must be a number": "query.skip must be a number.",
        "'x' is no option.": "'x' is no option.",
        "": "",
    }
    assert {given: sentence(given) for given in shown} == shown


def test_data_are_indented() -> None:
    """JSON is indented for readability."""
    assert as_json({"é": [1]}) == '{\n  "é": [\n    1\n  ]\n}'


def test_a_time_is_said_to_the_minute() -> None:
    """Times are displayed in UTC to the minute; the page's script converts them to local time."""
    assert moment("2026-11-22T20:35:01.123+00:00") == "2026-11-22 20:35 UTC"


def test_the_end_of_each_stream_is_shown(tmp_path: Path) -> None:
    """Empty streams and files that turngate didn't create are left out."""
    (tmp_path / "stdout").write_bytes(b"x" * MAX_OUTPUT + b"\xffend")
    (tmp_path / "stderr").write_bytes(b"")
    (output,) = outputs(tmp_path)
    assert (output.name, output.size, output.left_out) == ("stdout", MAX_OUTPUT + 4, 4)
    assert output.text.endswith("x\ufffdend")
    assert outputs(tmp_path / "missing") == []
    (tmp_path / "stderr").unlink()
    (tmp_path / "stderr").symlink_to(tmp_path / "stdout")
    (tmp_path / "stdout").rename(tmp_path / "elsewhere")
    os.mkfifo(tmp_path / "stdout")
    assert outputs(tmp_path) == []


def test_little_output_is_shown_whole() -> None:
    """Short output is displayed completely."""
    assert OutputTail("stdout", "x", 1).left_out == 0
