"""Tests of `turngate handles` on served runs, whose states come from the server's database."""

import json
from pathlib import Path

from tests.reference import cli_env as d
from tests.reference.cli_env import CliEnv
from tests.reference.server_env import ASK, ServerEnv, final


def handle_of(run_id: str) -> str:
    """Return the handle of a run."""
    return run_id[-8:]


def test_a_run_without_a_turn_has_a_record_too(server_env: ServerEnv) -> None:
    """The handle is valid as soon as the run is created, and the list shows the state of each run."""
    server_env.cli_env.engine("codex", d.codex(ASK, more=[["meet"]]), d.codex(final(x=1)))
    running = server_env.create(execution_mode="interactive")
    server_env.cli_env.meet()
    assert listed(server_env.cli_env) == {handle_of(running): "running"}
    server_env.cli_env.release()
    question = server_env.question(running)
    assert listed(server_env.cli_env) == {handle_of(running): "waiting_user"}
    server_env.server.dispatcher.close()
    queued = server_env.create()
    server_env.reply(running, question)
    assert listed(server_env.cli_env) == {handle_of(queued): "queued", handle_of(running): "queued"}
    server_env.server.commands.cancel(running)
    assert list(listed(server_env.cli_env)) == [handle_of(running), handle_of(queued)]
    shown = json.loads(server_env.cli_env.type("handles", "show", handle_of(running)).out)
    assert (shown["state"], shown["turns"], shown["served"]) == ("canceled", 1, True)


def listed(cli_env: CliEnv) -> dict[str, str]:
    """List the handles with their states, as the command does."""
    lines = cli_env.type("handles").out.splitlines()
    return {line.split()[0]: line.split()[4] for line in lines}


def test_prune_keeps_runs_that_have_not_ended(server_env: ServerEnv) -> None:
    """Pruning keeps an old waiting run, but removes an ended one with its record and directory."""
    server_env.cli_env.engine("codex", d.codex(ASK))
    waits, _ = server_env.ask()
    ended, _ = server_env.ask()
    server_env.server.commands.cancel(ended)
    for run_id in (waits, ended):
        with server_env.server.store.writing() as connection:
            connection.execute("UPDATE runs SET updated_at = '2026-01-01T00:00:00.000+00:00'")
        server_env.cli_env.change(handle_of(run_id), {"updatedAt": "2026-01-01T00:00:00+00:00"})
    said = server_env.cli_env.type("handles", "prune", "--older-than", "30d")
    assert said.out.split()[:2] == ["removed", handle_of(ended)]
    assert f"kept: {handle_of(waits)}: its run has not ended" in said.err
    assert [server_env.run(run_id).run_directory.exists() for run_id in (waits, ended)] == [True, False]
    assert list(listed(server_env.cli_env)) == [handle_of(waits)]


def test_a_record_whose_database_is_gone_is_listed_and_not_continued(server_env: ServerEnv) -> None:
    """Without the database, the state of a served run is unknown."""
    server_env.cli_env.engine("codex", d.codex(ASK))
    run_id, _ = server_env.ask()
    server_env.server.close()
    for file in server_env.cli_env.data.glob("turngate.db*"):
        file.unlink()
    said = server_env.cli_env.type("resume", handle_of(run_id), "blue")
    assert (said.code, "turngate.db is missing" in said.err) == (2, True)
    said = server_env.cli_env.type("handles")
    assert (said.code, handle_of(run_id) in said.out, "may be outdated" in said.err) == (0, True, True)
    assert "kept" in server_env.cli_env.type("handles", "prune", "--older-than", "0h").err
    assert Path(server_env.cli_env.record(handle_of(run_id))["runDirectory"]).is_dir()
