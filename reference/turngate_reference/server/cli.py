"""The subcommand `serve`: the reference server under waitress.

The first line of the function's docstring is what `turngate --help` shows; it is read without importing this.
"""

import logging
import os
import signal
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

import click
from msgspec import Struct
from msgspec.structs import replace

from turngate import NotFoundError, Trust, UsageError, engine_names, load_contract
from turngate.cli import given_as
from turngate.process.sessions import adopting_orphans, reaping_adopted
from turngate.process.signals import ending
from turngate.sanitize import visible, visible_lines
from turngate_reference.access import (
    CODE_MINUTES,
    Logouts,
    is_exposed,
    kept_token,
    login_address,
    make_token,
    read_token,
    token_of,
)
from turngate_reference.data_dir import DataDir, RunningServer, data_dir, running_server
from turngate_reference.server.app import SLOTS, Server, ServerSettings
from turngate_reference.server.orchestrator.verification import Verify
from turngate_reference.server.web.app import create_app
from turngate_reference.server.web.listener import WebListener, address_of, bound, connections, raise_limit, url
from turngate_reference.server.web.metrics import Metrics
from turngate_reference.server.web.problems import machine_error
from turngate_reference.server.web.security import RequestCheck, allowed_hosts
from turngate_reference.server.web.streams import EventStreams
from turngate_reference.trust_options import trust_options

PORT = 8321
_EPILOG = f"""\b
Examples:
    turngate serve
    turngate serve --port 0 --data-dir ./data --workspace-root ~/projects
    turngate serve --verify wait
    turngate serve --host 0.0.0.0 --token-file ~/.config/turngate/token
    curl --header @<(echo "Authorization: Bearer $(turngate serve --print-token)") http://127.0.0.1:8321/v1/runs

Requests need a token. The server makes one and keeps it in the file `token` of the data directory. It also prints an
address that logs a browser in; it works once, within {CODE_MINUTES} minutes. While it serves, --print-token and
--print-link print the token, or another address, and exit. Don't write a token into the command line of a program:
other users of the machine can read it there.

The server describes its API at /openapi.json. SIGTERM or Ctrl-C stops the server and every engine that it
started. Queued runs and runs that wait without a process continue after the next start. Exit codes: 0 the server was
stopped, or what was asked for is printed; 2 it could not start, or there is no token or no server."""


class ServeOptions(Struct, frozen=True, kw_only=True):
    """What `serve` was given; the options are described on its help page."""

    host: str
    port: int
    asked_dir: Path | None
    slots: int
    workspace_root: Path | None
    token_file: Path | None
    no_token: bool
    printed: Literal["token", "link"] | None
    allow_unsafe: tuple[str, ...]
    trust_workspace: tuple[Path, ...]
    pass_env: tuple[str, ...]
    verify: str
    log_level: str


class VisibleFormatter(logging.Formatter):
    """Escapes invisible characters and indents tracebacks, so that no text can pass for a log message."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """Return the message on one line."""
        return visible(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802 - logging's name
        """Return the traceback, indented; of an error of the machine, such as a full disk, only what it is."""
        why, hint = machine_error(ei[1])
        if why:
            return visible(f"    {why} ({hint})")
        return "\n".join(f"    {line}" for line in visible_lines(super().formatException(ei)))


def log_to_stderr(level: str) -> None:
    """Write messages of a level and above to stderr."""
    handler = logging.StreamHandler()
    handler.setFormatter(VisibleFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=level, handlers=[handler])
    # it warns of requests that wait for a thread, and of idle threads that end late at a stop on a busy machine
    logging.getLogger("waitress").setLevel(logging.ERROR)


@click.command(epilog=_EPILOG)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on. Any non-local address requires --token-file.",
)
@click.option(
    "--port",
    default=PORT,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Port; 0 picks and prints a free one.",
)
@click.option(
    "--data-dir",
    "asked_dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory for runs and their database.  [default: TURNGATE_DATA_DIR, else the platform's user data folder]",
)
@click.option(
    "--slots",
    default=SLOTS,
    show_default=True,
    type=click.IntRange(1, 1000),
    help="Maximum number of engines that run at the same time.",
)
@click.option(
    "--workspace-root",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Directory in which runs may choose a workspace.  [default: runs can't choose one]",
)
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File with a token of yours, which requests must send as Authorization: Bearer TOKEN.  [default: the server "
    "makes one]",
)
@click.option("--no-token", is_flag=True, help="Need no token: everybody on this machine may start runs as you.")
@click.option("--print-token", "printed", flag_value="token", help="Print the token of the running server, and exit.")
@click.option(
    "--print-link", "printed", flag_value="link", help="Print an address that logs a browser in there, and exit."
)
@trust_options
@click.option(
    "--pass-env", multiple=True, metavar="NAME", help="Pass this environment variable to engines, too (repeatable)."
)
@click.option(
    "--verify",
    type=click.Choice([moment.value for moment in Verify]),
    default=Verify.BACKGROUND.value,
    show_default=True,
    help="When to check that each engine resumes, with two turns against a stub model: while serving (interactive runs "
    "stay queued until then), before serving, or never. Known results are reused.",
)
@click.option(
    "--log-level",
    type=click.Choice(("debug", "info", "warning")),
    default="warning",
    show_default=True,
    help="Log level on stderr; debug includes the arguments of every started engine.",
)
@given_as(ServeOptions)
def serve(options: ServeOptions) -> int:
    """Run the reference server: runs, questions and replies over HTTP.

    By default, the server accepts only local connections. It uses the engines on PATH.
    """
    if options.printed:
        _print_access(data_dir(options.asked_dir), link=options.printed == "link")
        return 0
    log_to_stderr(options.log_level.upper())
    family, address = address_of(options.host, options.port)
    if options.token_file and options.no_token:
        raise click.UsageError("give either --token-file or --no-token, not both")
    token = read_token(options.token_file) if options.token_file else None
    if options.token_file and is_exposed(options.token_file):
        click.echo(f"Warning: {options.token_file} can be read by others: chmod 600 it", err=True)
    hosts = allowed_hosts(address[0], options.host, any_name=token is not None)
    most = connections(raise_limit(), options.slots)
    metrics, open_streams = Metrics(), EventStreams()
    data = data_dir(options.asked_dir)
    if running := running_server(data):
        hint = f"use it ({data.command('serve --print-link')}), stop it, or choose another --data-dir"
        raise UsageError(f"{data.root} is in use by the server at {running.url}", hint)
    kept = None if options.no_token else options.token_file.resolve() if options.token_file else data.token
    settings = ServerSettings(
        data,
        options.slots,
        options.workspace_root,
        dict(os.environ),
        options.pass_env,
        metrics.turn_ended,
        Verify(options.verify),
        trust=Trust(frozenset(options.allow_unsafe), options.trust_workspace),
    )
    # bound first: a server that finds its port taken must not have begun to work on the queue
    with (
        bound(family, address) as listening,
        adopting_orphans(),
        reaping_adopted(),
        closing(Server(replace(settings, reached=RunningServer(url(listening), kept)))) as core,
    ):
        if token is None and not options.no_token:
            token = make_token(data)
        guard = RequestCheck(token, hosts, Logouts(data.logouts))
        listener = WebListener(create_app(core, guard, open_streams, metrics), listening, open_streams, most)

        def end(*_: object) -> None:
            listener.stop()
            if not core.ready:
                core.stop()

        for number in ending():
            signal.signal(number, end)
        core.start()
        if core.ready:
            click.echo(_started(core, url(listening), settings, token))
        listener.run()
    return 0


def _print_access(data: DataDir, *, link: bool) -> None:
    """Print the token of the server that runs on a data directory, or of the last one; or an address to log in at."""
    server = running_server(data)
    if server is None:
        if link:
            raise NotFoundError(f"no server runs on {data.root}", f"start one: {data.command('serve')}")
        click.echo(kept_token(data))
        return
    text = token_of(data, server)
    if text is None:
        raise UsageError("the server needs no token", f"open {server.url}")
    click.echo(login_address(server.url, text) if link else text)


def _started(core: Server, at: str, settings: ServerSettings, token: str | None) -> str:
    engines = core.engines.every(patience=0)
    names = [engine.engine + " (simulated)" * engine.simulated for engine in engines if engine.executable]
    slots = f"{settings.slots} slot{'s' if settings.slots > 1 else ''}"
    here = f"turngate serves {at} (data: {settings.data.root}; {slots}; engines: {', '.join(names) or 'none on PATH'})"
    reported = [here]
    if token:
        reported.append(
            f"log in: {login_address(at, token)}\n"
            f"(works once, within {CODE_MINUTES} minutes; {settings.data.command('serve --print-link')} prints another)"
        )
    return "\n".join(reported if names else [*reported, _no_engines()])


def _no_engines() -> str:
    """Return which engines were looked for, and how to install one."""
    contracts = [load_contract(engine) for engine in engine_names()]
    names = ", ".join(contract.executable for contract in contracts)
    commands = [contract.install_command for contract in contracts if contract.lifecycle.status == "active"]
    installs = "".join(f"    {command}\n" for command in commands if command)
    return (
        f"No engine on PATH (looked for {names}). Install one that you have an account for:\n{installs}"
        "Or install a simulated one, which needs no account or network, and restart this server:\n"
        "    turngate simulate codex --install ./bin && export PATH=$PWD/bin:$PATH"
    )
