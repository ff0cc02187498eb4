"""The command of the example: `./fleet --help`."""

import argparse
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg
from dbos import DBOS
from sqlalchemy.exc import OperationalError

from turngate import TurngateError, TurnInput, UsageError
from turngate_fleet.postgres import postgres
from turngate_fleet.runs import Fleet, Run
from turngate_fleet.worker import work

HOME = Path(os.environ.get("FLEET_HOME", ".")).absolute()
ADDRESS = HOME / "database"


def main() -> None:
    """Run one command."""
    given = _parser().parse_args()
    try:
        if given.command == "up":
            _up(given.workers)
        elif given.command in {"worker", "gone"}:
            work(_url(), given.host, given.slots, HOME / "workspaces", gone=given.command == "gone")
        else:
            _talk(given, Fleet(_url()))
    except TurngateError as error:
        sys.exit(f"fleet: {error}")
    except (psycopg.OperationalError, OperationalError) as error:
        sys.exit(f"fleet: the database can't be reached: {str(error).splitlines()[0]}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="./fleet", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    up = commands.add_parser("up", help="run PostgreSQL and workers on this machine until Ctrl-C")
    up.add_argument("--workers", type=int, default=2, help="how many  [default: 2]")
    for name, said in (("worker", "run the worker of this host"), ("gone", "end the runs of a host that is lost")):
        worker = commands.add_parser(name, help=said)
        worker.add_argument("host", help="the name of the host, which stays the same")
        worker.add_argument("--slots", type=int, default=4, help="engines at once  [default: 4]")
    ask = commands.add_parser("ask", help="start a run, and answer its questions here")
    ask.add_argument("engine", help="such as codex")
    ask.add_argument("task")
    ask.add_argument("--workspace", default="", help="a directory on the host  [default: a new one]")
    ask.add_argument("--host", default="", help="the host to run on  [default: any]")
    ask.add_argument("--timeout", type=float, default=1200, help="seconds for each turn  [default: 1200]")
    for name, said in (("answer", "go on with a run that waits"), ("cancel", "cancel the turn of a run")):
        commands.add_parser(name, help=said).add_argument("run")
    commands.add_parser("list", help="list the latest runs")
    return parser


def _up(workers: int) -> None:
    """Run PostgreSQL and the workers of hosts a, b, and so on; start a worker again if it dies."""
    HOME.mkdir(parents=True, exist_ok=True)
    for number in (signal.SIGTERM, signal.SIGINT):  # the latter may be ignored, as in a script's background
        signal.signal(number, signal.default_int_handler)
    with postgres(HOME) as url:
        DBOS.migrate(url)
        ADDRESS.touch(0o600)
        ADDRESS.write_text(url, "utf-8")
        hosts = [chr(ord("a") + number) for number in range(workers)]
        running: dict[str, subprocess.Popen[bytes]] = {}
        try:
            print(f"fleet: {workers} workers; stop them with Ctrl-C", flush=True)
            while True:
                for host in hosts:
                    if host not in running or running[host].poll() is not None:
                        command = [sys.executable, "-P", "-m", "turngate_fleet", "worker", host]
                        running[host] = subprocess.Popen(command, process_group=0)
                        print(f"fleet: worker {host} is process {running[host].pid}", flush=True)
                time.sleep(1)
        except KeyboardInterrupt:
            print("fleet: stopping", flush=True)
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)
            ADDRESS.unlink(missing_ok=True)
            for worker in running.values():
                worker.terminate()
            for worker in running.values():
                worker.wait()


def _talk(given: argparse.Namespace, fleet: Fleet) -> None:
    if given.command == "list":
        for run in fleet.recent():
            print(run.id, run.state, run.host or "-", run.input.engine, run.error or run.input.message[:60], sep="\t")
        return
    if given.command == "cancel":
        fleet.cancel(fleet.find(given.run))
        return
    if given.command == "ask":
        turn = TurnInput(given.engine, given.task, given.workspace, timeout=given.timeout)
        run = fleet.wait(fleet.start(turn, given.host))
    else:
        run = fleet.wait(given.run)
    print(f"fleet: run {run.id} on host {run.host}", file=sys.stderr)
    while run.output and (question := run.output.result.interaction):
        print(question.prompt, *(f"- {option}" for option in question.options), sep="\n")
        try:
            message = input("> ")
        except (EOFError, KeyboardInterrupt):
            sys.exit(f"\nfleet: it waits; go on with: ./fleet answer {run.id}")
        fleet.reply(run, message)
        run = fleet.wait(run.id, run.turn)
    print(_answer(run))


def _answer(run: Run) -> str:
    """Return the answer of a run; UsageError: it has none, with the reason."""
    if run.output is None or run.error:
        raise UsageError(f"run {run.id}: {run.error or run.state}")
    return str(run.output.result.final_data)


def _url() -> str:
    if url := os.environ.get("FLEET_DATABASE") or (ADDRESS.exists() and ADDRESS.read_text("utf-8")):
        return url
    raise UsageError("no fleet is running here", "start one with ./fleet up, or set FLEET_DATABASE")


if __name__ == "__main__":
    main()
