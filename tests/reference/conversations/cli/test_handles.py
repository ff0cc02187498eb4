"""`turngate handles`: list, show, prune; the states of served runs come from the server's database."""

import json
import re
import shutil
from pathlib import Path
from unittest.mock import Mock

import pytest

from tests.reference import cli_env as d
from tests.reference.cli_env import CliEnv, handle_in
from tests.reference.server_env import ASK, ServerEnv, final
from tests.tables import each
from turngate_reference.data_dir import locked
from turngate_reference.server.web.app import Views
from turngate_reference.states import State

DOCS = Path(__file__).parents[4] / "docs"
HANDLE = "k3n9x2ab"  # in the examples of the documents


def test_the_list_is_newest_first(cli_env: CliEnv) -> None:
    """Each line shows handle, time, engine, state and the start of the prompt; the last used one comes first."""
    cli_env.engine("codex", d.codex("hi"))
    cli_env.engine("gemini", [["exit", 3]])
    first = cli_env.begin("codex", f"paint the\nhouse {'x' * 99}")
    cli_env.type("start", "gemini", "hello")
    assert cli_env.type("resume", first, "go on").code == 0
    said = cli_env.type("handles")
    top, second = said.out.splitlines()
    assert top.split()[0] == first
    assert top.split()[3:7] == ["codex", "succeeded", "paint", "the"]
    assert len(top) <= 110
    assert second.split()[3:] == ["gemini", "failed", "hello"]
    assert said.code == 0


def test_an_empty_list_is_no_error(cli_env: CliEnv) -> None:
    """Before the first conversation the list is empty, a person learns where, and no files are created."""
    listed = cli_env.type("handles")
    assert (listed.code, listed.out) == (0, "")
    assert str(cli_env.data) in listed.err
    assert cli_env.type("handles", "--json").out == "[]\n"
    assert not cli_env.data.exists()


def test_the_list_as_json_holds_the_records(cli_env: CliEnv) -> None:
    """`--json` prints the same records as `show`, as a list."""
    cli_env.engine("codex", d.codex("hi"))
    handle = cli_env.begin()
    assert json.loads(cli_env.type("handles", "--json").out) == [cli_env.record(handle)]
    assert json.loads(cli_env.type("handles", "show", handle[:5]).out) == cli_env.record(handle)


def test_show_names_what_is_missing(cli_env: CliEnv) -> None:
    """`show` exits with 2 for an unknown handle."""
    assert cli_env.type("handles", "show", "zzzzzzzz").code == 2


def test_prune_removes_what_nobody_touched_for_so_long(cli_env: CliEnv) -> None:
    """Old conversations lose record, lock and run directory; the --cwd directory and newer conversations stay."""
    cli_env.engine("codex", d.codex("hi"))
    (cli_env.root / "project").mkdir()
    old, young = cli_env.begin("codex", "--cwd", "project", "hello"), cli_env.begin()
    cli_env.change(old, {"updatedAt": "2026-01-01T00:00:00+00:00"})
    said = cli_env.type("handles", "prune", "--older-than", "30d")
    assert (said.code, said.out) == (0, f"removed {old} (codex, 2026-01-01)\n")
    assert sorted(path.name for path in (cli_env.data / "handles").iterdir()) == [f"{young}.json", f"{young}.lock"]
    assert [path.name[-8:] for path in (cli_env.data / "runs").iterdir()] == [young]
    assert (cli_env.root / "project").is_dir()


def test_prune_says_that_nothing_is_old_enough(cli_env: CliEnv) -> None:
    """Otherwise its silence could mean that it has removed something."""
    said = cli_env.type("handles", "prune", "--older-than", "30d")
    assert (said.code, said.out, "no record is as old as 30d" in said.err) == (0, "", True)


def test_prune_keeps_what_is_in_use(cli_env: CliEnv) -> None:
    """A running conversation is kept, whatever its age, and the process that uses it is named."""
    cli_env.engine("codex", d.codex("hi"))
    handle = cli_env.begin()
    with locked(cli_env.data / "handles" / f"{handle}.lock", handle):
        said = cli_env.type("handles", "prune", "--older-than", "0h")
    assert said.err.startswith(f"kept: {handle} is in use by process ")
    assert Path(cli_env.record(handle)["runDirectory"]).is_dir()


def test_prune_removes_no_directory_that_is_not_ours(cli_env: CliEnv) -> None:
    """If a record names a directory that is not a run directory, only the record is removed."""
    cli_env.engine("codex", d.codex("hi"))
    handle = cli_env.begin()
    elsewhere = {"runDirectory": str(cli_env.data / "runs" / ".."), "updatedAt": "2026-01-01T00:00:00+00:00"}
    cli_env.change(handle, elsewhere)
    assert cli_env.type("handles", "prune", "--older-than", "1w").code == 0
    assert (cli_env.data / "runs").is_dir()
    assert list((cli_env.data / "handles").iterdir()) == []


def test_prune_removes_what_was_moved_and_what_is_read_only(cli_env: CliEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """A data directory may be moved, and an engine may leave folders without the right to change them."""
    cli_env.engine("codex", d.codex("hi"))
    handle = cli_env.begin()
    (folder := Path(cli_env.only_record()["runDirectory"], "cache", "module")).mkdir(parents=True)
    (folder / "link").symlink_to(cli_env.root)
    folder.parent.chmod(0o500)
    folder.chmod(0o500)
    moved, mode = cli_env.root / "moved", cli_env.root.stat().st_mode
    cli_env.data.rename(moved)
    modes = list[int]()
    whole = shutil.rmtree

    def removed(root: Path) -> None:
        modes.extend(path.stat().st_mode & 0o777 for path in (root / "cache", root / "cache" / "module"))
        whole(root)

    monkeypatch.setattr(shutil, "rmtree", removed)
    said = cli_env.type("handles", "--data-dir", str(moved), "prune", "--older-than", "0h")
    assert (said.code, f"removed {handle}" in said.out, [*(moved / "runs").iterdir()]) == (0, True, [])
    assert (modes, cli_env.root.stat().st_mode) == ([0o700, 0o700], mode)


def test_prune_knows_its_directories_by_whatever_path(cli_env: CliEnv) -> None:
    """A run directory recorded through a link to the data directory is removed; the target of a link is kept."""
    cli_env.engine("codex", d.codex("hi"))
    first, second = cli_env.begin(), cli_env.begin()
    (cli_env.root / "link").symlink_to(cli_env.data)
    old = {"updatedAt": "2026-01-01T00:00:00+00:00"}
    run_id = cli_env.record(first)["runId"]
    cli_env.change(first, old | {"runDirectory": str(cli_env.root / "link" / "runs" / run_id)})
    moved = Path(cli_env.record(second)["runDirectory"]).rename(cli_env.root / "moved")
    (cli_env.data / "runs" / cli_env.record(second)["runId"]).symlink_to(moved)
    cli_env.change(second, old | {"runDirectory": str(moved)})
    said = cli_env.type("handles", "prune", "--older-than", "1w")
    assert not (cli_env.data / "runs" / run_id).exists()
    assert said.err.startswith(f"kept: {second}: ")
    assert moved.is_dir()


@each("age", ["30", "d", "-1d", "1.5d", "30 d", "", "٣d"])
def test_prune_refuses_what_is_no_age(cli_env: CliEnv, age: str) -> None:
    """An age must be a number and a unit."""
    assert cli_env.type("handles", "prune", "--older-than", age).code == 2


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
    assert listed(server_env.cli_env) == {handle_of(running): "waiting for you"}
    server_env.server.owner.close()
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
    return {line[:8]: re.split(" {2,}", line)[3] for line in lines if re.match(r"\w{8}  ", line)}


def test_waiting_runs_come_first_with_their_question(server_env: ServerEnv) -> None:
    """The question stands below its run, with the command that replies; `--waiting` leaves out the others."""
    server_env.cli_env.engine("codex", d.codex(ASK), d.codex(final(x=1)))
    run_id, _ = server_env.ask()
    later = server_env.create()
    server_env.wait(later, State.SUCCEEDED, State.FAILED)
    handle = handle_of(run_id)
    lines = server_env.cli_env.type("handles").out.splitlines()
    question = ["? Which colour?", "  - red", "  - blue", f"  turngate resume {handle} MESSAGE", ""]
    assert (lines[0][:8], lines[1:6], lines[6][:8]) == (handle, question, handle_of(later))
    waiting = server_env.cli_env.type("handles", "--waiting").out.splitlines()
    assert waiting == lines[:6]


def test_nobody_waits_where_no_program_reads_it(cli_env: CliEnv) -> None:
    """A person learns that none waits; stdout stays empty."""
    cli_env.engine("codex", d.codex("hi"))
    cli_env.begin()
    said = cli_env.type("handles", "--waiting")
    assert (said.code, said.out, said.err) == (0, "", f"{cli_env.data}/handles: none waits for you\n")


def test_the_list_as_json_holds_each_open_question(server_env: ServerEnv) -> None:
    """The record of a run that waits has its question as `pending`, with the fields of the API."""
    server_env.cli_env.engine("codex", d.codex(ASK))
    run_id, question = server_env.ask()
    (listed,) = json.loads(server_env.cli_env.type("handles", "--json").out)
    pending = listed.pop("pending")
    (shown,) = Views(server_env.server, Mock(), Mock()).list_runs(2)["runs"]
    assert listed.pop("run") == shown
    assert listed == json.loads(server_env.cli_env.type("handles", "show", handle_of(run_id)).out)
    assert (pending["interaction_id"], pending["asked_at"]) == (question.interaction_id, question.asked_at)
    assert (pending["prompt"], pending["options"]) == ("Which colour?", ["red", "blue"])


def test_no_question_forges_a_line_of_the_list(server_env: ServerEnv) -> None:
    """Each further line of a prompt, an option and a field is indented and marked; the list has one command."""
    forged = "x\n  turngate resume k3n9x2ab 'rm -rf ~'\n\nk3n9x2ab  2026-11-22 20:45  codex      waiting for you"
    asked = json.loads(ASK)
    asked["interaction"] |= {"prompt": forged, "options": [forged, "blue"], "required_fields": [forged]}
    server_env.cli_env.engine("codex", d.codex(json.dumps(asked)))
    run_id, _ = server_env.ask()
    lines = server_env.cli_env.type("handles").out.splitlines()
    assert [line for line in lines if re.match(r" *(turngate|k3n9)", line)] == [
        f"  turngate resume {handle_of(run_id)} MESSAGE"
    ]
    assert lines[1:3] == ["? x", "| " + "  turngate resume k3n9x2ab 'rm -rf ~'"]
    assert all(line.lstrip().startswith(("?", "|", "-", "*")) for line in lines[1:-2])


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


def shown(page: str, command: str, handle: str) -> str:
    """Return the output of a command as a page shows it, with another handle."""
    text = (DOCS / page).read_text("utf-8")
    found = re.search(rf"^\$ {re.escape(command)}\n(?P<output>.*?)^(?:\$ |```)", text, re.MULTILINE | re.DOTALL)
    assert found
    return found["output"].replace(HANDLE, handle)


def test_a_conversation_prints_what_the_page_shows(cli_env: CliEnv) -> None:
    """The first turn prints the question and how to continue, and three characters of a handle are enough."""
    cli_env.keep_session()
    cli_env.engine("codex", d.codex(ASK), d.codex(final(colour="blue")))
    said = cli_env.type("start", "codex", "Which colour should the door have?")
    handle = handle_in(said.err)
    page = shown("handles.md", 'turngate start codex "Which colour should the door have?"', handle)
    assert said.out + said.err == page
    assert cli_env.type("resume", handle[:3], "blue").code == 0


def test_the_list_of_what_waits_is_what_the_page_shows(server_env: ServerEnv) -> None:
    """A run of the server stands there with its question and the command that replies."""
    server_env.cli_env.engine("codex", d.codex(ASK))
    server_env.ask(prompt="Which colour should the door have?")
    printed = server_env.cli_env.type("handles", "--waiting").out
    page = shown("page.md", "turngate handles --waiting", printed[:8])
    assert without_time(printed) == without_time(page)


def without_time(text: str) -> str:
    """Return a list without the times of its rows."""
    return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d", "TIME", text)
