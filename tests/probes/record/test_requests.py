"""What a recording keeps of a request, and which requests it rejects."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tables import each
from turngate.contract import load
from turngate.errors import ContractError
from turngate_probes.harness.cases import FILLER
from turngate_probes.record import replay
from turngate_probes.record.recording import LongPrompt
from turngate_probes.record.requests import (
    CUT,
    LONG,
    MARK,
    approval_signs,
    excess,
    lengthened,
    own_text,
    read_requests,
    shortened,
    tool_name,
)

FIXTURES = Path(__file__).parents[3] / "fixtures"
CODEX = load.contract("codex").at("0.169.0")
NONCE = "tgn-0000000000000001"
PROMPT = f"Ask me which colour I like. {NONCE}"
TEXTS = st.text(st.sampled_from(f"a \n{CUT}"), max_size=20)


@each(
    "text, kept",
    [
        (PROMPT, PROMPT),
        (f"\n{PROMPT}\n\n", PROMPT),
        (f"<reminder>\nYou are ...\n</reminder>\n{PROMPT}", f"{CUT}\n{PROMPT}"),
        (f"{PROMPT}\nYou are ...\n--help", f"{PROMPT}\n{CUT}\n--help"),
        (f'"{PROMPT}"', f"{CUT}{NONCE}{CUT}"),
        (f"Title of: {PROMPT}", f"{CUT}{NONCE}"),
        ("Never pass --help.", None),
        ("You are a coding agent.", None),
        ("", None),
    ],
)
def test_of_a_text_our_own_lines_and_nonces_stay(text: str, kept: str | None) -> None:
    """Of a text only our own lines and nonces are kept, which show whether the prompt arrived word for word."""
    assert own_text(text, {PROMPT, "--help"}) == kept


@given(st.lists(st.one_of(TEXTS, st.sampled_from([PROMPT, NONCE, "--help", "\n"])), max_size=30))
def test_what_was_kept_once_is_kept_as_it_is(parts: list[str]) -> None:
    """Reducing a recorded request again doesn't change it, so recordings can be checked that way."""
    kept = own_text("".join(parts), {PROMPT, "--help"})
    assert kept is None or own_text(kept, {PROMPT, "--help"}) == kept


def test_a_very_long_prompt_becomes_a_mark_and_a_part_of_it_does_not() -> None:
    """A very long prompt becomes a mark, a part of one doesn't."""
    long = "x" * (LONG + 1)
    assert own_text(f"context\n{long}", {long}) == f"{CUT}\n{MARK}"
    assert own_text(long[1:], {long}) is None


def test_signs_of_approval_are_the_matches_of_the_contracts_patterns() -> None:
    """Each match of the contract's patterns is kept once, without the text around it."""
    body = "You are in sandbox_mode: read-only now. sandbox_mode: read-only; sandbox_mode is `workspace-write`."
    assert approval_signs(body, CODEX) == ("sandbox_mode: read-only", "sandbox_mode is `workspace-write")


def test_names_of_tools_are_bounded() -> None:
    """Names of tools are limited in length and form, so arbitrary text can't pass as one."""
    assert tool_name("run shell\n") == "run_shell_"
    assert len(tool_name("x" * 5000)) == 128


@pytest.fixture(name="release")
def _release(tmp_path: Path) -> Path:
    """Copy the recordings of codex, for a test to change."""
    shutil.copytree(FIXTURES / "codex/0.169.0", tmp_path / "codex/0.169.0")
    return tmp_path / "codex/0.169.0"


def problems(release: Path) -> Iterator[ContractError]:
    """Return the problems of the recordings of a release."""
    turns = replay.replay(CODEX, release.parents[1]).turns.values()
    return excess(release, turns, CODEX)


def edit(release: Path, **changes: object) -> Path:
    """Change the first request of main-again."""
    file = release / "main-again/requests.ndjson"
    first, *rest = file.read_text().splitlines()
    file.write_text("\n".join([json.dumps(json.loads(first) | changes), *rest]))
    return file


def test_recordings_as_they_are_written_hold_nothing_more(release: Path) -> None:
    """The recordings as written have no problems."""
    assert list(problems(release)) == []


@pytest.mark.parametrize(
    "key, value",
    [
        ("user_texts", [PROMPT, "You are a coding agent."]),
        ("user_texts", [f"<reminder>\n{PROMPT}"]),
        ("signs", ["You are a coding agent. sandbox_mode: read-only"]),
    ],
)
def test_text_that_we_did_not_send_is_too_much(release: Path, key: str, value: list[str]) -> None:
    """Text that turngate didn't send is reported with file, line, key and fix."""
    file = edit(release, **{key: value})
    (error,) = problems(release)
    assert (error.file, error.line, error.path) == (str(file), 1, f"$.{key}[{len(value) - 1}]")
    assert "record the release again" in error.hint


def test_files_of_another_kind_are_too_much(release: Path) -> None:
    """Files that don't belong to a recording are reported, since they could hold request bodies."""
    (release / "main-again/request-1.json").write_text("{}")
    (error,) = problems(release)
    assert error.file.endswith("main-again/request-1.json")
    assert error.hint == "delete it"


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"body": "You are"}, "unknown field `body`"),
        ({"tools": ["You are a coding agent"]}, "$.tools[0]"),
        ({"nonces": ["You are"]}, "$.nonces[0]"),
        ({"model": "x" * 301}, "$.model"),
    ],
)
def test_a_request_of_another_shape_is_not_read(release: Path, changes: dict[str, object], message: str) -> None:
    """A request of another shape is rejected with file, line and key."""
    file = edit(release, **changes)
    with pytest.raises(ContractError) as reported:
        read_requests(file.parent)
    assert (reported.value.file, reported.value.line) == (str(file), 1)
    assert message in reported.value.what


@given(st.text(max_size=50), st.integers(0, 6000), st.text(max_size=50))
def test_a_recipe_gives_the_text_again(before: str, count: int, after: str) -> None:
    """The full text can be restored from a recipe."""
    text = before + (FILLER * 200)[:count] + after
    assert lengthened(shortened(text)) == text


def test_long_filled_text_becomes_short() -> None:
    """A prompt of 200 KB is stored in a few words; a short one stays as it is."""
    assert shortened("a " + FILLER * 5000 + " z") == LongPrompt("a ", FILLER, len(FILLER) * 5000, " z")
    assert shortened("hello") == "hello"


def test_long_text_of_another_kind_stays() -> None:
    """Text without the filler is kept as it is."""
    assert shortened("x" * (LONG + 1)) == "x" * (LONG + 1)
