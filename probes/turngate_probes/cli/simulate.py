"""The subcommand `simulate`."""

from pathlib import Path

import click
from click.shell_completion import CompletionItem

from turngate_probes.cli.shared_options import engines, say, to_simulate
from turngate_probes.simulate.faults import Faults, descriptions, listed, parsed


def _names(_context: click.Context, _parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    return [
        CompletionItem(fault.name + "=" * bool(fault.value), help=fault.does)
        for fault in listed()
        if fault.name.startswith(typed) and fault.by != "scenario"
    ]


def _list(context: click.Context, _parameter: click.Parameter, faulty: tuple[str, ...]) -> tuple[str, ...]:
    """Print what each fault does if that is asked, and exit."""
    if "list" in faulty:
        click.echo("\n".join(descriptions()))
        context.exit()
    return faulty


def _checked(faulty: tuple[str, ...]) -> Faults:
    try:
        return parsed(faulty)
    except ValueError as wrong:
        raise click.BadParameter(str(wrong), param_hint="'--fault'") from wrong


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--install", "folder", type=click.Path(path_type=Path), metavar="DIR", help="Write DIR/<executable>.")
@click.option(
    "--fault",
    "faulty",
    multiple=True,
    metavar="NAME[=VALUE]",
    shell_complete=_names,
    is_eager=True,
    callback=_list,
    help="Make it misbehave, such as hang=before (repeatable). `list` prints what each fault does.",
)
@click.argument("target", metavar="ENGINE[@VERSION]", shell_complete=engines)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[--] [ARG]...")
def simulate(target: str, arguments: tuple[str, ...], folder: Path | None, faulty: tuple[str, ...]) -> int:
    """Run a simulated engine: a stand-in for a release, driven by its contract.

    The ARGs are those of the engine, including those of its sticky mode. Sessions are saved
    where the engine would keep them (below $HOME). The model's answers come from the chat-completions backend at
    TURNGATE_SIMULATE_URL. Without it, the engine runs a short built-in conversation: it asks a question, then (in a
    sticky process) for permission to act, and ends. TURNGATE_SIMULATE_REPLY replaces every reply.

    Options go before ENGINE or, without ARGs, after it.

    \b
    turngate simulate codex@0.169.0 exec --json --skip-git-repo-check -- 'Which colour?'
    turngate simulate codex@0.169.0 --install ./bin && PATH=$PWD/bin:$PATH codex --version
    turngate simulate gemini --fault dies-after-turn --install ./bin
    """
    if arguments[:1] in {("--install",), ("--fault",)}:
        if len(arguments) % 2:
            raise click.UsageError(f"option {arguments[-1]!r} requires an argument")
        before = [*(["--install", str(folder)] if folder else []), *(f"--fault={name}" for name in faulty)]
        with simulate.make_context("turngate simulate", [*before, *arguments, target]) as reordered:
            return int(simulate.invoke(reordered))
    if target.startswith("-"):
        raise click.NoSuchOption(target, ctx=click.get_current_context())
    faults = _checked(faulty)
    from turngate_probes.releases.target import parse_target
    from turngate_probes.simulate import simulated_process

    contract, warning = to_simulate(parse_target(target))
    if folder is None and not arguments:
        raise click.UsageError("pass arguments of the engine, or --install DIR to write an executable")
    if folder is None:
        return simulated_process.simulate(contract, arguments[1:] if arguments[:1] == ("--",) else arguments, faults)
    click.echo(simulated_process.install(contract, folder.absolute(), faulty))
    if warning:
        say(f"Warning: {warning}")
    return 0
