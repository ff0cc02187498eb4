"""The subcommand `token`: prints the token of the running server, or an address that logs a browser in."""

from pathlib import Path

import click

from turngate import NotFoundError, UsageError
from turngate_reference.access import CODE_MINUTES, kept_token, login_address, token_of
from turngate_reference.conversations.cli.options import data_dir_option
from turngate_reference.data_dir import data_dir, running_server

_EPILOG = f"""\b
Examples:
    curl --header @<(echo "Authorization: Bearer $(turngate token)") http://127.0.0.1:8321/v1/runs
    turngate token --link

The address of --link works once, within {CODE_MINUTES} minutes. Don't write a token into the command line of a program:
other users of the machine can read it there. Exit codes: 0 printed, 2 there is no token or no server."""


@click.command(epilog=_EPILOG)
@data_dir_option
@click.option("--link", is_flag=True, help="Print an address that logs a browser in, instead.")
def token(asked_dir: Path | None, link: bool) -> None:
    """Print the token of the server that runs on the data directory, or of the last one."""
    data = data_dir(asked_dir)
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
