"""`turngate gate` on two real releases of codex: their differences, and their sessions in a shared HOME."""

import json
from pathlib import Path
from typing import Any

import pytest

from turngate import cli
from turngate.contract.load import first_error

pytestmark = pytest.mark.engines

OLD, NEW = "0.147.0", "0.169.0"
# clauses that take seconds; the others wait for minutes and deadlines
ASKED = (
    "help.surface",
    "handle.place",
    "turn.terminal-event",
    "resume.repeated",
    "auto.flags-accepted",
    "upgrade.resume",
    "rollback.resume",
    "rollback.touched",
)


def test_an_upgrade_of_codex_over_many_releases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each release resumes the other's sessions, new options are additive, and a new deviation is reported."""
    asked = [word for clause in ASKED for word in ("--clause", clause)]
    where, page = tmp_path / "gate.json", tmp_path / "gate.md"
    code = cli.run(
        [
            "gate",
            f"codex@{NEW}",
            "--from",
            f"codex@{OLD}",
            *asked,
            "--results",
            str(tmp_path / "results"),
            "--report",
            str(where),
            "--report",
            str(page),
        ]
    )
    said = capsys.readouterr().out
    assert code == 0, said
    report: Any = json.loads(where.read_text())
    assert first_error("gate-report", report) is None
    crossed = {c["id"]: c["result"] for c in report["probe"]["releases"][1]["clauses"] if c["level"] == "gate"}
    assert crossed == dict.fromkeys(("upgrade.resume", "rollback.resume", "rollback.touched"), "pass")
    impacts = {difference["subject"]: difference["impact"] for difference in report["differences"]}
    assert impacts["--worktree"] == "additive"
    # its clause was not selected
    assert "backend.failure-told hang-away" not in impacts
    assert "breaking" not in impacts.values()
    new = [action["text"] for action in report["actions"] if action["new"]]
    assert "treat --trust as an auto-approve flag" in new
    assert report["changes_required"] is True
    assert f"codex@{NEW}: green, changes required before you upgrade from codex@{OLD}" in said
    assert "| 🟢 additive | option --worktree |" in page.read_text()
