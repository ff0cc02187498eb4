"""The subcommand `handles`: lists, shows and prunes the records of conversations and of runs of the server."""

import json
import os
import re
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct, to_builtins
from msgspec.structs import replace

from turngate import MachineError, NotFoundError, UsageError
from turngate.files import real_path
from turngate.sanitize import visible
from turngate_reference import handle_record
from turngate_reference.conversations.cli.options import data_dir_option
from turngate_reference.conversations.cli.printing import question_lines, row
from turngate_reference.data_dir import DataDir, data_dir, locked
from turngate_reference.handle_record import HandleRecord
from turngate_reference.states import ENDED, State

if TYPE_CHECKING:
    from turngate_reference.server.store.runs import StoredQuestion, Summary


class ServedRuns(Struct, frozen=True):
    """The runs in the server's database, and the open questions of those that wait; both by handle."""

    summaries: "dict[str, Summary]"
    questions: "dict[str, StoredQuestion]"


NO_RUNS = ServedRuns({}, {})


@click.group(invoke_without_command=True)
@data_dir_option
@click.option("--waiting", is_flag=True, help="List only those that wait for you.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print the handle records as JSON, with runs and open questions as the API has them.",
)
@click.pass_context
def handles(ctx: click.Context, asked_dir: Path | None, waiting: bool, as_json: bool) -> int:
    """List conversations and runs of the server: first those that wait for you, then the others, newest first."""
    ctx.obj = data_dir(asked_dir)
    if ctx.obj.named and not ctx.obj.root.exists():
        raise NotFoundError(f"there is no data directory {ctx.obj.root}", "pass the directory that start or serve uses")
    ctx.obj.check_layout()
    if ctx.invoked_subcommand:
        return 0
    records, unreadable = _records(ctx.obj)
    stored = _stored(ctx.obj, records) or NO_RUNS
    records = [_updated(record, stored) for record in records]
    records.sort(key=lambda record: (record.state is State.WAITING_USER, record.touched), reverse=True)
    if waiting:
        records = [record for record in records if record.state is State.WAITING_USER]
    if as_json:
        click.echo(json.dumps([_with_run(record, stored) for record in records], indent=2))
        return 2 if unreadable else 0
    for record in records:
        click.echo(row(record))
        if question := stored.questions.get(record.handle):
            click.echo("\n".join(_question(record, question, stored, ctx.obj)))
    if not records and not unreadable:
        what = "none waits for you" if waiting else f"none; start one: {ctx.obj.command('start')} ENGINE PROMPT"
        click.echo(f"{ctx.obj.handles}: {what}", err=True)
    return 2 if unreadable else 0


@handles.command()
@click.argument("handle")
@click.pass_obj
def show(data: DataDir, handle: str) -> None:
    """Print one handle record."""
    record = handle_record.find(data, handle)
    click.echo(handle_record.as_text(_updated(record, _stored(data, [record]) or NO_RUNS)))


@handles.command()
@click.option("--older-than", required=True, metavar="AGE", help="Time since the last use, for example 30d, 12h or 4w.")
@click.pass_obj
def prune(data: DataDir, older_than: str) -> None:
    """Remove records that were not used for some time, with their run directories.

    Those of unfinished served runs stay. If turngate was killed in a turn, its engine is ended first.
    """
    before = datetime.now(UTC) - _age(older_than)
    records, _ = _records(data)
    stored, old = _stored(data, records), False
    for record in records:
        run = stored.summaries.get(record.handle) if stored else None
        if record.served and (stored is None or (run and run.state not in ENDED)):
            if record.touched < before:
                old = True
                click.echo(f"kept: {record.handle}: its run has not ended", err=True)
        elif _updated(record, stored or NO_RUNS).touched < before:
            old = True
            _remove(data, record)
    if not old:
        click.echo(f"{data.handles}: no record is as old as {older_than}", err=True)


def _records(data: DataDir) -> tuple[list[HandleRecord], bool]:
    """Read all records; those that can't be read are reported, and make the second value true."""
    records, unreadable = handle_record.every(data)
    for error in unreadable:
        click.echo(error, err=True)
    return records, bool(unreadable)


def _stored(data: DataDir, records: list[HandleRecord]) -> ServedRuns | None:
    """Read all runs from the server's database; None: no record is served, or it can't be read."""
    if not any(record.served for record in records):
        return None
    from turngate_reference.server.store import database, runs  # noqa: PLC0415 - most lists need no database

    try:
        with database.opened(data.database) as store:
            summaries = {run.handle: run for run in runs.summaries(store)}
            waits = {handle: run for handle, run in summaries.items() if run.state is State.WAITING_USER}
            asked = {handle: runs.question(store, run.pending_interaction_id or "") for handle, run in waits.items()}
            return ServedRuns(summaries, {handle: question for handle, question in asked.items() if question})
    except (MachineError, UsageError) as lacking:
        click.echo(f"the states of served runs may be outdated: {lacking}", err=True)
        return None


def _updated(record: HandleRecord, stored: ServedRuns) -> HandleRecord:
    """Return the record of a conversation or run as the database has it."""
    run = stored.summaries.get(record.handle)
    # an ended run continues only at a terminal, which does not update the database
    if run is None or (run.state in ENDED and record.turns > run.turn_index):
        return record
    return replace(record, state=run.state, turns=run.turn_index, updated_at=run.updated_at)


def _with_run(record: HandleRecord, stored: ServedRuns) -> dict[str, Any]:
    """Return a record as JSON, with what the API's list shows of its run, and the run's open question."""
    shown = record.to_json()
    if run := stored.summaries.get(record.handle):
        shown["run"] = run.to_json()
    if asked := stored.questions.get(record.handle):
        question = to_builtins(asked.question)
        shown["pending"] = {"interaction_id": asked.interaction_id, **question, "asked_at": asked.asked_at}
    return shown


def _question(record: HandleRecord, asked: "StoredQuestion", stored: ServedRuns, data: DataDir) -> list[str]:
    """Return the lines below a run that waits: its question, until when it is open, and how to reply."""
    closes = stored.summaries[record.handle].wait_deadline_at
    until = [f"  closes {closes[:16].replace('T', ' ')} UTC"] if closes else []
    reply = visible(f"  {data.command('resume')} {record.handle} MESSAGE")
    return [*question_lines(asked.question)[1:], *until, reply, ""]


def _remove(data: DataDir, record: HandleRecord) -> None:
    from turngate_reference.conversations.killed import end_engine  # noqa: PLC0415 - listing needs no engines

    path, lock = data.record(record.handle), data.lock(record.handle)
    try:
        with locked(lock, record.handle):
            if handle_record.read(path) != record:
                return  # it has been used meanwhile
            if record.state is State.RUNNING:
                end_engine(record)
            # a record may name any directory, by any path; only ours are removed, also if all were moved
            ours, named = data.runs / record.run_id, record.run_directory
            if ours.exists() and (real_path(ours) == real_path(named) or not named.exists()):
                _remove_tree(ours)
            for file in (path.with_suffix(".tmp"), path, lock):
                file.unlink(missing_ok=True)
    except MachineError as used:
        click.echo(f"kept: {used.what}", err=True)
    except OSError as error:
        click.echo(f"kept: {record.handle}: {error}", err=True)
    else:
        click.echo(f"removed {record.handle} ({record.engine}, {record.updated_at[:10]})")


def _remove_tree(root: Path) -> None:
    """Remove a folder, with what an engine has made read-only in it, such as a cache of Go modules."""
    for folder, names, _ in os.walk(root):
        for name in names:
            if not (below := Path(folder, name)).is_symlink():
                below.chmod(0o700)
    shutil.rmtree(root)


def _age(text: str) -> timedelta:
    age = re.fullmatch(r"([0-9]{1,5})([hdw])", text)
    if not age:
        raise click.UsageError(f"{text!r} is not a valid age: use a number and h, d or w, such as 30d")
    return int(age[1]) * {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}[age[2]]
