"""Options that a newer release no longer shows on a help page are tried."""

from pathlib import Path
from typing import Any

import pytest

from tests.probes.report import journals as j
from turngate import Stop
from turngate_probes.gate import hidden_options as trial
from turngate_probes.gate.hidden_options import NO_OPTION, argv_of, hidden_options, is_accepted

# what real releases print, of the option and of the one that none has: qwen 0.21.2, codex 0.169.0 and claude 2.1.330
REFUSED = (
    "Unknown arguments: screen, turngate-has-no-such-option, turngateHasNoSuchOption",
    "error: unexpected argument '--screen' found",
    "error: unknown option '--screen'",
)
ACCEPTED = (
    "Unknown arguments: turngate-has-no-such-option, turngateHasNoSuchOption\n  --screen  A mode for screen readers",
    "error: unexpected argument '--turngate-has-no-such-option' found",
)


def test_an_option_is_accepted_if_only_the_other_one_is_refused() -> None:
    """An engine that complains of neither has shown nothing."""
    assert [is_accepted(output, "--screen") for output in (*REFUSED, "", "hello")] == [False] * 5
    assert [is_accepted(output, "--screen") for output in ACCEPTED] == [True] * 2


def test_an_option_gets_a_value_if_it_takes_one() -> None:
    """A flag gets none, and what has choices gets the first."""
    for takes, value in {
        "": [],
        "[boolean]": [],
        "<FILE>": ["1"],
        '[string] [choices: "plan", "yolo"]': ["plan"],
    }.items():
        given = argv_of(Path("/x/codex"), "codex exec --help", "--screen", takes)
        assert given == ("/x/codex", "exec", "--screen", *value, NO_OPTION), takes


def help_page(*options: str) -> Any:
    """Return the event of a help page with these options."""
    output = {"bytes": 0, "excerpt": ""}
    page = {"argv": ["codex", "exec", "--help"], "exit_code": 0, "ended": "exit", "cpu_seconds": 0.1}
    place = {"release": "codex@0.169.0", "case": "static", "step": "help-1", "stdout": output, "stderr": output}
    return j.read(j._event("page", page | place | {"options": options}))


def test_the_executable_runs_with_the_path_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A version manager puts the interpreter of an engine there; without that, no option was tried."""
    executable, interpreter = tmp_path / "bin/codex", tmp_path / "managed/turngate-node"
    for path, text in (
        (executable, "#!/usr/bin/env turngate-node\n"),
        (interpreter, f"#!/bin/sh\necho \"unknown option '{NO_OPTION}'\"\n"),
    ):
        path.parent.mkdir()
        path.write_text(text)
        path.chmod(0o755)
    asked = [help_page("--old", "--both")], [help_page("--both")], executable, Stop()
    monkeypatch.setenv("PATH", f"{interpreter.parent}:/usr/bin:/bin")
    assert hidden_options(*asked) == frozenset({"--old"})
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert hidden_options(*asked) is None


@pytest.mark.long
def test_only_what_the_newer_release_refuses_is_gone(tmp_path: Path, monkeypatch: Any) -> None:
    """An option that both show is not tried; after one that does not end, no other is."""
    executable = tmp_path / "codex"
    refuses = "--kept) echo \"unknown option '$4'\";; --slow) sleep 100;; *) echo \"unknown option '$2'\""
    executable.write_text(f"#!/bin/sh\ncase $2 in {refuses}; esac\n")
    executable.chmod(0o755)
    old, new = help_page("--both", "--kept <FILE>", "--old", "--slow", "--z"), help_page("--both")
    monkeypatch.setattr(trial, "LIMIT", 1.0)
    assert hidden_options([old], [new], executable, Stop()) == frozenset({"--kept"})
    assert hidden_options([old], [], executable, Stop()) == frozenset()
