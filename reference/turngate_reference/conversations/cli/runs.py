"""The subcommands that use a running server, over its HTTP API.

`runs` lists its runs, and `reply` answers their questions.
"""

import json
import os
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import click
from msgspec import Struct

from turngate import MachineError, NotFoundError, ServerRefusedError, UsageError
from turngate.decoding import convert
from turngate.sanitize import visible
from turngate_reference.access import token_of
from turngate_reference.conversations.cli.options import data_dir_option
from turngate_reference.conversations.cli.printing import quoted
from turngate_reference.data_dir import DataDir, data_dir, running_server
from turngate_reference.states import State

TIMEOUT = 60.0
_PAGE = 100
_EPILOG = """The server is the one at --url, else at TURNGATE_URL, else the one that runs on the data directory. If it
needs a token, put that into the environment variable TURNGATE_TOKEN. Exit codes: 0 done, 2 not done."""
_url = click.option("--url", metavar="URL", help="The server's address, such as http://127.0.0.1:8321.")


class Pending(Struct, frozen=True):
    """An open question of a run."""

    interaction_id: str
    kind: str
    prompt: str
    options: list[str]
    required_fields: list[str]
    asked_at: str


class ServedRunInfo(Struct, frozen=True):
    """A run as the server lists it, with its open question."""

    run_id: str
    handle: str
    engine: str
    state: str
    turn_index: int
    created_at: str
    wait_deadline_at: str | None = None
    pending: Pending | None = None


class ServerClient(Struct, frozen=True):
    """A server at `url`; `token` is empty if it needs none. Methods raise TurngateError if they can't be done."""

    url: str
    token: str

    def waiting(self) -> list[dict[str, Any]]:
        """Return the runs that wait for their user, each with its question as `pending`; oldest first."""
        runs, following = [], f"/v1/runs?state=waiting_user&limit={_PAGE}"
        while following:
            page = self._send("GET", following)
            asked = [
                run | {"pending": self._send("GET", run["links"]["interaction"])["pending"]} for run in page["runs"]
            ]
            runs += [run for run in asked if run["pending"]]
            following = page["next"]
        return sorted(runs, key=lambda run: (run["wait_deadline_at"] or "~", run["pending"]["asked_at"]))

    def newest(self, limit: int) -> list[dict[str, Any]]:
        """Return the newest runs."""
        listed: list[dict[str, Any]] = self._send("GET", f"/v1/runs?{urlencode({'limit': limit})}")["runs"]
        return listed

    def reply(self, run: ServedRunInfo, question: Pending, response: str) -> dict[str, Any]:
        """Reply to a question; the server takes one reply to each."""
        body = {"interaction_id": question.interaction_id, "response": response}
        answer: dict[str, Any] = self._send("POST", f"/v1/runs/{quote(run.run_id)}/interaction/reply", body)
        return answer

    def _send(self, method: str, path: str, body: Any = None) -> Any:
        parts = urlsplit(self.url)
        # not urllib, which would send local requests to a proxy
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        sent = None if body is None else json.dumps(body).encode()
        connection = kind(parts.netloc, timeout=TIMEOUT)
        try:
            connection.request(
                method, parts.path.rstrip("/") + path, sent, headers | {"Content-Type": "application/json"}
            )
            response = connection.getresponse()
            answer = json.loads(response.read())
        except (OSError, HTTPException, ValueError) as failed:
            hint = "is it running? give its address with --url or TURNGATE_URL"
            raise MachineError(
                f"{self.url} did not answer as turngate serve does: {visible(str(failed))}", hint
            ) from failed
        finally:
            connection.close()
        if response.status >= 400:  # noqa: PLR2004 - an error of HTTP
            raise _refused(answer)
        return answer


def find_server(asked: str | None, data: DataDir) -> ServerClient:
    """Return the server at the given address, else at `TURNGATE_URL`, else the one that runs on the data directory.

    Its token is taken from `TURNGATE_TOKEN`, else from the file of the server on the data directory if that is the
    one. No other server gets that token. UsageError if there is no such server.
    """
    here = running_server(data)
    url = asked or os.environ.get("TURNGATE_URL") or (here.url if here else None)
    if url is None:
        hint = "start one with turngate serve, or give its address with --url or TURNGATE_URL"
        raise NotFoundError(f"no server runs on {data.root}", hint)
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
        raise UsageError(f"{url!r} is no address of a server", "it looks like http://127.0.0.1:8321")
    token = os.environ.get("TURNGATE_TOKEN", "").strip()
    if not token and here and url.rstrip("/") == here.url:
        token = token_of(data, here) or ""
    return ServerClient(url, token)


def info(run: dict[str, Any]) -> ServedRunInfo:
    """Parse the server's description of a run."""
    return convert(run, ServedRunInfo)


def _refused(problem: Any) -> ServerRefusedError:
    """Return the error for a problem document."""
    reported = problem if isinstance(problem, dict) else {}
    if reported.get("code") == "UNAUTHORIZED":
        hint = "give it in the environment variable TURNGATE_TOKEN: turngate serve --print-token prints it there"
        return ServerRefusedError("the server needs its token, and got none or another", hint)
    detail = visible(str(reported.get("detail", "the server refused the request")))
    return ServerRefusedError(detail, visible(str(reported.get("hint", ""))))


@click.command(epilog=_EPILOG)
@_url
@data_dir_option
@click.option("--waiting", is_flag=True, help="List only runs that wait for you.")
@click.option("-n", "--limit", default=20, show_default=True, type=click.IntRange(1, 100), help="How many other runs.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, as the API has it, with each open question.")
def runs(url: str | None, asked_dir: Path | None, waiting: bool, limit: int, as_json: bool) -> None:
    """List the runs of a running server: first those that wait for you, with their questions, then the newest."""
    data = data_dir(asked_dir)
    server = find_server(url, data)
    approval = server.waiting()
    known = {run["run_id"] for run in approval}
    others = [] if waiting else [run | {"pending": None} for run in server.newest(limit) if run["run_id"] not in known]
    if as_json:
        click.echo(json.dumps(approval + others, indent=2))
        return
    for run in map(info, approval):
        if run.pending:
            closes = f", closes {_time(run.wait_deadline_at)}" if run.wait_deadline_at else ""
            click.echo(visible(f"{_row(run)}, asked {_time(run.pending.asked_at)}{closes} UTC"))
            click.echo("\n".join(_question(run, run.pending, data)))
    for run in map(info, others):
        click.echo(visible(_row(run)))
    if not approval and not others:
        click.echo(f"{'no run waits for you' if waiting else 'no runs yet'} on {server.url}", err=True)


@click.command(epilog=_EPILOG)
@_url
@data_dir_option
@click.option("--option", type=click.IntRange(1), metavar="N", help="Send the option with this number.")
@click.option("--json", "as_json", is_flag=True, help="Print the server's answer as JSON.")
@click.argument("handle")
@click.argument("text", required=False)
def reply(
    url: str | None, asked_dir: Path | None, option: int | None, as_json: bool, handle: str, text: str | None
) -> None:
    """Reply to the question of a run that waits; the running server then runs the next turn.

    HANDLE may be shortened as long as it is unambiguous. TEXT is one argument; `-` reads it from standard input. Put
    `--` before a TEXT that begins with a dash. A TEXT that differs from an option only in case is sent as that option.
    Without a server, use `turngate resume`.
    """
    if (text is None) == (option is None):
        raise click.UsageError("give TEXT or --option N, and not both")
    data = data_dir(asked_dir)
    server = find_server(url, data)
    run = _chosen([info(run) for run in server.waiting()], handle, data)
    question = run.pending
    if question is None:
        raise UsageError(f"{run.handle} asks nothing", f"see: {data.command('runs')}")
    response = _numbered(question, option) if option else _spelled(question, _read(text or ""))
    answer = server.reply(run, question, response)
    sent = quoted(response[:200], f"sent to {visible(run.handle)}: ")
    click.echo(json.dumps(answer, indent=2) if as_json else "\n".join(sent))


def _chosen(waiting: list[ServedRunInfo], prefix: str, data: DataDir) -> ServedRunInfo:
    """Return the waiting run whose handle begins with `prefix`; UsageError if there is none, or several."""
    runs = [run for run in waiting if prefix and run.handle.startswith(prefix)]
    if not runs:
        raise NotFoundError(f"no run with the handle {prefix!r} waits for a reply", f"see: {data.command('runs')}")
    if len(runs) > 1:
        names = ", ".join(run.handle for run in runs)
        raise UsageError(f"{prefix!r} may be any of {names}", "give more of its characters")
    return runs[0]


def _numbered(question: Pending, number: int) -> str:
    if number > len(question.options):
        raise click.UsageError(f"the question has {len(question.options)} options")
    return question.options[number - 1]


def _spelled(question: Pending, text: str) -> str:
    """Return the option that matches the text except for its case, if there is exactly one, else the text."""
    options = [option for option in question.options if option.casefold() == text.strip().casefold()]
    return text if text in question.options or len(options) != 1 else options[0]


def _read(text: str) -> str:
    if text != "-":
        return text
    try:
        with click.open_file("-", "rb") as file:
            data: bytes = file.read()
        return data.decode()
    except RuntimeError as closed:
        raise click.UsageError("standard input is closed") from closed
    except UnicodeDecodeError as error:
        raise click.UsageError(f"standard input isn't valid UTF-8 from byte {error.start + 1} on") from error


def _row(run: ServedRunInfo) -> str:
    turns = f"{run.turn_index} turn{'' if run.turn_index == 1 else 's'}"
    return f"{run.handle}  {_time(run.created_at)}  {run.engine:10} {_state(run.state):15}  {turns}"


def _state(name: str) -> str:
    """Return a state for people; the server may be of a later turngate, with states unknown here."""
    return next((state.label for state in State if state == name), name)


def _question(run: ServedRunInfo, question: Pending, data: DataDir) -> list[str]:
    lines = quoted(question.prompt, "  ? ")
    lines += [line for i, option in enumerate(question.options, 1) for line in quoted(option, f"    {i}. ")]
    lines += [line for field in question.required_fields for line in quoted(f"{field}:", "    * ")]
    return [*lines, visible(f"  {data.command('reply')} {run.handle} TEXT"), ""]


def _time(time: str) -> str:
    return time[:16].replace("T", " ")
