"""Options that a help page no longer shows are tried."""

from pathlib import Path

import pytest

from tests.contracts.test_history import known, release
from tests.tools.history import hidden
from tests.tools.history.hidden import with_hidden
from turngate import Stop
from turngate.history import HIDDEN
from turngate_probes.releases.npm import NpmRegistry
from turngate_probes.releases.registry import Installed


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
