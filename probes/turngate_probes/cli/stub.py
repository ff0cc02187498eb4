"""The subcommand `stub`: the model backend alone."""

import re
import threading
from collections.abc import Sequence

import click

from turngate.sanitize import bounded, visible
from turngate_probes.cli.shared_options import as_json_option, say
from turngate_probes.stub_model import Egress, Exchange, Refuse, StubBackend, StubRule, Text, ToolCall

LONGEST_PROMPT = 80
_EPILOG = """\b
Examples:
    turngate stub
    turngate stub --port 8080 --reply "It is blue."
    turngate stub --tool-call 'write_file={"path": "a.txt", "content": "x"}' --reply Done.
    turngate stub --refuse 429

Each request is logged on standard error. Exit codes: 0 stopped by Ctrl-C or SIGTERM, 2 it could not start."""


def _tool_call(_ctx: click.Context, _option: click.Parameter, text: str | None) -> ToolCall | None:
    import json

    if text is None:
        return None
    name, _, arguments = text.partition("=")
    if not re.fullmatch(r"[\w.-]+", name, re.ASCII):
        raise click.BadParameter('write NAME={"argument": "value"}')
    try:
        read = json.loads(arguments or "{}")
    except ValueError as error:
        raise click.BadParameter(f"the arguments of {name} are not JSON: {error}") from error
    if not isinstance(read, dict):
        raise click.BadParameter('write NAME={"argument": "value"}')
    return ToolCall(name, read)


@click.command(epilog=_EPILOG)
@click.option("--port", default=0, type=click.IntRange(0, 65535), help="Port.  [default: a free one]")
@click.option(
    "--reply",
    "replies",
    multiple=True,
    metavar="TEXT",
    help="What the model says. Repeat it for later requests; the last one is repeated forever.  [default: ok]",
)
@click.option(
    "--tool-call",
    callback=_tool_call,
    metavar="NAME[=JSON]",
    help="Tool that the model asks for, with its arguments if it has any, before it replies to a prompt.",
)
@click.option("--refuse", type=click.IntRange(400, 599), metavar="STATUS", help="Answer with this HTTP status.")
@as_json_option
def stub(port: int, replies: Sequence[str], tool_call: ToolCall | None, refuse: int | None, as_json: bool) -> int:
    """Run the stub model, so that you can point a CLI at it.

    It speaks the APIs of OpenAI (chat completions and responses), Anthropic and Gemini, with and without /v1 in the
    base URL, for every model name and API key. It listens only on 127.0.0.1. It is also a proxy that refuses
    every connection to other machines.
    """
    import json
    from contextlib import ExitStack

    from turngate import MachineError
    from turngate.process.signals import ending, handling_signals

    stopped, backend = threading.Event(), LoggedBackend(port)
    backend.script(*_rules(replies, tool_call, refuse))
    with ExitStack() as running:
        running.enter_context(handling_signals(ending(), lambda _: stopped.set()))
        try:
            running.enter_context(backend)
        except OSError as error:
            hint = "choose another port, or leave out --port to get a free one"
            raise MachineError(f"port {port} can't be used: {error.strerror}", hint) from error
        urls = base_urls(backend.url)
        lines = [f"stub model: {backend.url}", *(f"  {name:9} {url}" for name, url in urls.items())]
        click.echo(json.dumps({"url": backend.url, "base_urls": urls}) if as_json else "\n".join(lines))
        stopped.wait()
    return 0


def base_urls(url: str) -> dict[str, str]:
    """Return the usual base URL of each vendor's clients."""
    return {"openai": f"{url}/v1", "anthropic": url, "gemini": url}


def _rules(replies: Sequence[str], tool_call: ToolCall | None, refuse: int | None) -> list[StubRule]:
    if refuse is not None:
        return [StubRule(Refuse(refuse))]
    last = len(replies) - 1
    answers = [StubRule(Text(reply), times=None if i == last else 1) for i, reply in enumerate(replies)]
    return [*([StubRule(tool_call, after_tool_result=False)] if tool_call else []), *answers]


class LoggedBackend(StubBackend):
    """A stub model that logs each request on standard error."""

    def note(self, entry: Exchange | Egress) -> None:
        """Journal and log an entry."""
        super().note(entry)
        say(_line(entry))


def _line(entry: Exchange | Egress) -> str:
    if isinstance(entry, Egress):
        return f"refused {entry.method} to {entry.host}:{entry.port}"
    prompt = f" {bounded(entry.user_texts[-1], LONGEST_PROMPT)!r}" if entry.user_texts else ""
    model = f" model {visible(entry.model)}" if entry.model else ""
    return (
        f"{visible(entry.method)} {visible(entry.path)} ({entry.protocol or 'unknown'}){model}{prompt}: {entry.reply}"
    )
