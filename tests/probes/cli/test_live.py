"""`turngate probe --level live` with an engine that needs no account."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.command import Command, CommandResult
from tests.probes import engines
from tests.tables import each
from turngate.argv.auto_flags import auto_flags_in
from turngate.contract import load
from turngate.contract.load import first_error
from turngate_probes.clauses import with_prerequisites
from turngate_probes.cli.live import CLAUSES, TURNS, planned

KEY = "hunter2-hunter2"


@pytest.fixture(name="live")
def _live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run the command on a fake engine with these faults and an API key in its environment."""

    def run(*args: str, faults: str = "answers-itself shows-key", **env: str) -> CommandResult:
        executable = engines.install(tmp_path / "engine", *faults.split())
        account = {"CODEX_HOME": str(tmp_path / ".codex"), "OPENAI_API_KEY": KEY} | env
        return Command(tmp_path, env=tuple(account.items())).run(
            "probe", "--level", "live", f"codex={executable}", *args
        )

    return run


@pytest.mark.long
def test_two_turns_are_run_with_consent(live: Any, tmp_path: Path) -> None:
    """The plan is printed first, the word is recalled, the session stays in the user's store, no key is saved."""
    done = live("--yes", "--json")
    assert done.code == 0, done.err
    assert done.clauses() == dict.fromkeys(with_prerequisites(CLAUSES), "pass")
    assert first_error("probe-report", done.report) is None
    assert (done.report["level"], done.report["releases"][0]["turns"]) == ("live", TURNS)
    before = done.err.partition("2 turns planned")[0]
    assert "will be run 2 times, in your environment" in before
    assert "--ignore-rules resume '<session id>' -" in before
    assert "Total: 2 turns, about 100 tokens of prompts and replies" in before
    assert len(list((tmp_path / ".codex/sessions").glob("*.json"))) == 1
    (journal,) = (tmp_path / "cache/probes").iterdir()
    assert "using <secret>" in journal.read_text()
    assert KEY not in journal.read_text() + done.out + done.err
    assert list((tmp_path / "cache/sandboxes").iterdir()) == []


@pytest.mark.long
def test_a_word_that_is_forgotten_is_told(live: Any) -> None:
    """A forgotten word does not fail the probe, because models can forget; the output shows the answer."""
    done = live("--yes", "--json", faults="answers-itself forgets")
    assert done.code == 0, done.err
    assert done.clauses()["live.context-recalled"] == "fail"
    assert done.report["releases"][0]["verdict"] is None
    assert "I do not know." in done.err


@pytest.mark.long
def test_a_renamed_id_is_broken(live: Any) -> None:
    """A renamed session id is broken, and no second turn is run."""
    done = live("--yes", "--json", faults="answers-itself renames-id")
    assert done.code == 1, done.err
    assert done.clauses()["handle.present"] == "fail"
    assert done.report["releases"][0]["turns"] == 1


@pytest.mark.long
@pytest.mark.parametrize(
    "args, env, said",
    [
        ((), {}, "nothing was run"),
        ((), {"CI": "true"}, "CI is set"),
        (("--yes", "--keep", "there"), {}, "can't be combined with --clause or --keep"),
        (("--yes", "--clause", "handle.present"), {}, "can't be combined with --clause or --keep"),
        (("--yes", "gemini=/missing"), {}, "there is no executable"),
    ],
)
def test_without_consent_nothing_runs(
    live: Any, tmp_path: Path, args: tuple[str, ...], env: dict[str, str], said: str
) -> None:
    """Without consent, in CI, or with incompatible options nothing runs, and the exit code is 2."""
    done = live(*args, **env)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert not (tmp_path / ".codex/sessions").exists()


def test_a_target_must_be_named(tmp_path: Path) -> None:
    """Level live needs a target, so that it never uses the account for every engine."""
    done = Command(tmp_path).run("probe", "--level", "live", "--yes")
    assert (done.code, done.out) == (2, "")
    assert "--level live needs a target" in done.err


@each("engine", load.engine_names())
def test_what_is_run_never_acts_unasked(engine: str) -> None:
    """The planned turns of every engine contain no auto-approve flag."""
    contract = load.contract(engine).at()
    first, again = planned(contract)
    assert auto_flags_in((*first, *again), contract) == ()
    assert "<session id>" in json.dumps(again)
