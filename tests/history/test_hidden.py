"""Options that a help page no longer shows are tried."""

from pathlib import Path

import pytest

from tests.contracts.test_history import known, release
from tests.tools.history import hidden
from tests.tools.history.hidden import NO_OPTION, argv_of, is_accepted, with_hidden
from turngate import Stop
from turngate.history import HIDDEN
from turngate_probes.releases.npm import NpmRegistry
from turngate_probes.releases.registry import Installed

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


def test_an_option_that_is_accepted_is_hidden_and_not_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is tried in the release that no longer shows it; the next ones say nothing of it until one shows it again."""
    executable = tmp_path / "codex"
    executable.write_text(
        "#!/bin/sh\ncase $2 in --kept) echo \"unknown option '$3'\";; *) echo \"unknown option '$2'\"; esac\n"
    )
    executable.chmod(0o755)
    section, registry = "option/codex exec --help", NpmRegistry("codex", "@openai/codex", ("node_modules/.bin/codex",))
    monkeypatch.setattr(hidden, "in_use", lambda _: tmp_path.joinpath("lock").open("w"))
    monkeypatch.setattr(NpmRegistry, "install", lambda *_: Installed("1.1.0", tmp_path, executable, ""))
    facts: tuple[dict[str, str], ...] = ({"--kept": "", "--old": ""}, {}, {}, {"--kept": ""})
    ours = known(
        *(release(f"1.{n}.0", facts={section: named}) for n, named in enumerate(facts)),
        published=tuple(f"1.{n}.0" for n in range(4)),
    )
    tried = with_hidden(ours, ["1.1.0"], registry, Stop())
    assert [(change.release, change.subject, change.before, change.after) for change in tried.changes()] == [
        ("1.1.0", "--kept", "", HIDDEN),
        ("1.1.0", "--old", "", None),
        ("1.3.0", "--kept", HIDDEN, ""),
    ]
