"""The subcommand `explain`: what a clause promises, how it is tested, and what to do if it fails."""

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from turngate_probes.cli.shared_options import clauses

if TYPE_CHECKING:
    from turngate.contract.clauses import Catalogue, Clause

WIDTH = 88
NO_DEVIATION = "No deviation can excuse this clause: a release that misses it is broken."
DEVIATION = (
    "If releases differ for good, declare a deviation with one of the symptoms, and what an orchestrator must do:"
)


@click.command()
@click.argument("clause", required=False, shell_complete=clauses)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def explain(clause: str | None, *, as_json: bool) -> int:
    """Explain a clause: what it promises, why it matters, how it is tested, and what to do if it fails.

    Without CLAUSE, list all of them.

    \b
    turngate explain resume.dead-handle
    turngate explain prompt.not-a-flag --json

    Exit codes: 0; 2 if there is no such clause.
    """
    import json

    from msgspec import to_builtins

    from turngate import NotFoundError
    from turngate.contract import load
    from turngate.errors import did_you_mean

    catalogue = load.catalogue()
    if clause is None:
        listed = [to_builtins(each) for each in catalogue.values()]
        click.echo(json.dumps(listed) if as_json else "\n".join(_listed(catalogue)))
        return 0
    found = catalogue.get(clause)
    if found is None:
        hint = did_you_mean(clause, catalogue, "`turngate explain` lists all clauses")
        raise NotFoundError(f"there is no clause {clause!r}", hint)
    known = [{"releases": releases, "deviation": what} for releases, what in _deviations(clause)]
    described = to_builtins(found) | {"tested": _tested(clause), "deviations": known}
    click.echo(json.dumps(described) if as_json else "\n".join(_lines(found)))
    return 0


def _listed(catalogue: "Catalogue") -> Iterator[str]:
    width = max(map(len, catalogue))
    for clause in catalogue.values():
        yield f"{clause.id.ljust(width)}  {clause.sentence}"


def _tested(clause_id: str) -> str:
    """Return what the check of a clause looks at: the first sentences of its docstring."""
    from turngate_probes.clauses import CHECKS

    check = CHECKS.get(clause_id)
    return " ".join(((check and check.run.__doc__) or "").partition("\n\n")[0].split())


def _deviations(clause_id: str) -> Iterator[tuple[str, str]]:
    """Return the releases whose contracts declare a deviation from a clause, each with what an orchestrator must do."""
    from turngate import engine_names
    from turngate.contract import load

    for engine in engine_names():
        for claim in load.contract(engine).document.claims("deviations"):
            if claim.data["clause"] == clause_id:
                yield f"{engine} {claim.range}", f"{claim.data['symptom']}: {claim.data['action']}"


def _lines(clause: "Clause") -> Iterator[str]:
    yield f"{click.style(clause.id, bold=True)} ({clause.severity}, level {clause.level})"
    yield from _part("Promise", clause.sentence)
    yield from _part("Why it matters", clause.why)
    if tested := _tested(clause.id):
        needs = f" It needs {', '.join(clause.needs)}." if clause.needs else ""
        yield from _part("How it is tested", tested + needs)
    yield from _part("In an orchestrator", clause.orchestrator)
    yield from _part("In a contract", clause.contract)
    yield from _part("", NO_DEVIATION if clause.baseline else DEVIATION if clause.symptoms else "")
    for symptom, meaning in clause.symptoms.items():
        yield from _wrapped(f"{symptom}: {meaning}", "    ", "  ")
    declared = list(_deviations(clause.id))
    yield from _part("Known deviations", "none" if not declared else "")
    for releases, what in declared:
        yield from _wrapped(f"{releases}: {what}", "    ", "  ")


def _part(title: str, text: str) -> Iterator[str]:
    if title:
        yield ""
        yield click.style(title, bold=True)
    yield from _wrapped(text, "  ")


def _wrapped(text: str, indent: str, hanging: str = "") -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent + hanging)
