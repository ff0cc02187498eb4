"""What of turns and help pages can be compared between releases."""

from tests.probes import turns as t
from turngate.contract import load
from turngate_probes.journal.seen import keys_of, names

CLAP = """Run Codex non-interactively

Usage: codex exec [OPTIONS] [PROMPT] [COMMAND]

Commands:
  resume  Resume a previous session, see also --last and 3-way merges

Options:
  -c, --config <key=value>   Override, such as --config a=b
  -m, --model=<MODEL>
      --json
  -h
"""


def test_help_pages_are_read_by_their_options() -> None:
    """Long and short ones, and the words that the contract looks for; nothing else of the prose."""
    page = t.page("static/help-1", CLAP)
    assert names(page, t.CODEX) == ("--config", "--json", "--last", "--model", "-c", "-h", "-m", "resume")
    assert names(t.page("static/version", CLAP), t.CODEX) == ()


def test_turns_are_read_by_kinds_and_keys() -> None:
    """Each key stands with its record's kind, those in lists too, and no value does."""
    stdout = b'{"type": "turn.completed", "usage": {"parts": [{"count": 1}, {"more": {"x": null}}]}}\n'
    kinds, paths = keys_of(t.turn("main/first", stdout), t.CODEX)
    assert kinds == ("turn.completed",)
    below = ("", ".parts", ".parts[].count", ".parts[].more", ".parts[].more.x")
    assert paths == ("turn.completed: type", *(f"turn.completed: usage{path}" for path in below))


def test_documents_have_keys_alone() -> None:
    """Where records have no kind their paths stand alone."""
    gemini = load.contract("gemini").at("0.61.0")
    if gemini.events.field is None:
        _, paths = keys_of(t.turn("main/first", b'{"session_id": "a", "stats": {"models": {}}}'), gemini)
        assert "stats.models" in paths
