"""The subcommand `explain`: what a clause or a rule promises and what to do if it fails, or how to run an engine."""

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click
from msgspec import Struct

from turngate_probes.cli.shared_options import clauses, engines

if TYPE_CHECKING:
    from turngate.contract.clauses import Clause

WIDTH = 88
NO_DEVIATION = "No deviation can excuse this clause: a release that misses it is broken."
DEVIATION = (
    "If releases differ for good, declare a deviation with one of the symptoms, and what an orchestrator must do:"
)

BY_IMPACT = "The gate fails because of it if it is breaking; if it is degraded, only with --fail-on degraded or caveat."
GATE_WHY = {
    "claim": "No gate fails because of it, but your orchestrator may have to change: the report lists what to do.",
    "deviation": "The gate fails because of it only with --fail-on caveat. The report lists what to do.",
    "baseline": "The gate fails because of it, so that the baseline excuses nothing that it needn't.",
}


class OtherId(Struct, frozen=True):
    """An id of a report that is not a clause's: what it says, where it belongs, and why it matters."""

    id: str
    sentence: str
    belongs: str
    why: str
    scenarios: tuple[str, ...] = ()


def _ids(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the clauses and engines whose name begins with a text."""
    return [*clauses(ctx, parameter, incomplete), *engines(ctx, parameter, incomplete)]


@click.command()
@click.argument("clause", required=False, metavar="[ID]", shell_complete=_ids)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def explain(clause: str | None, *, as_json: bool) -> int:
    """Explain a clause: what it promises, why it matters, how it is tested, and what to do if it fails.

    ID can also be a rule of `turngate conform`, or another id in the report of a gate. Without ID, list all of them.

    ID can also be an engine, as ENGINE or ENGINE@VERSION: then print how your own orchestrator must run it to be as
    safe as turngate. That is the whole recipe, ready to paste: files, environment, start, resume, where the session
    id is, what ends a turn, limits, and known caveats.

    \b
    turngate explain gemini
    turngate explain gemini@0.37.2
    turngate explain resume.dead-handle
    turngate explain prompt.not-a-flag --json
    turngate explain orchestrator.completes

    Exit codes: 0; 2 if there is no such id or release.
    """
    import json

    from msgspec import to_builtins
    from msgspec.structs import fields

    from turngate import EngineContract, NotFoundError, engine_names
    from turngate.contract import load
    from turngate_probes.releases.selection import similar
    from turngate_probes.report.recipe import recipe

    catalogue, others = load.catalogue(), {other.id: other for other in _others()}
    sections = {each.encode_name for each in fields(EngineContract)}
    if clause and clause.partition(":")[0] in sections:
        clause = "gate.claim"  # a gate names it by the section of the contract
    if clause is None:
        listed = [to_builtins(each) for each in (*catalogue.values(), *others.values())]
        click.echo(json.dumps(listed) if as_json else "\n".join(_listed([*catalogue.values(), *others.values()])))
    elif clause in catalogue:
        found = catalogue[clause]
        known = [{"releases": releases, "deviation": what} for releases, what in _deviations(clause)]
        described = to_builtins(found) | {"tested": _tested(clause), "deviations": known}
        click.echo(json.dumps(described) if as_json else "\n".join(_lines(found)))
    elif clause in others:
        click.echo(json.dumps(to_builtins(others[clause])) if as_json else "\n".join(_other_lines(others[clause])))
    elif (named := clause.partition("@"))[0] in engine_names():
        found_recipe = recipe(named[0], named[2].removeprefix("v") or None)
        click.echo(json.dumps(to_builtins(found_recipe)) if as_json else found_recipe.markdown, nl=as_json)
    else:
        near = similar(clause, [*catalogue, *others, *engine_names()])
        raise NotFoundError(f"there is no clause, rule or engine {clause!r}", near)
    return 0


def _others() -> Iterator[OtherId]:
    """Return the ids of a gate that are no clauses, and the rules of `turngate conform`."""
    from turngate_probes.conform.catalogue import rules, scenarios
    from turngate_probes.report.judgement import OPEN
    from turngate_probes.report.sarif import GATE_RULES, NO_RESULT

    for kind, sentence in GATE_RULES.items():
        why = NO_RESULT if kind in OPEN else GATE_WHY.get(kind, BY_IMPACT)
        yield OtherId(f"gate.{kind}", sentence, "turngate gate, as a rule of SARIF", why)
    for rule in rules().values():
        tests = tuple(scenario.id for scenario in scenarios().values() if scenario.rule == rule.id)
        yield OtherId(rule.id, rule.sentence, f"turngate conform, {rule.severity}", rule.why, tests)


def _listed(all_of_them: "list[Clause | OtherId]") -> Iterator[str]:
    width = max(len(each.id) for each in all_of_them)
    for each in all_of_them:
        yield f"{each.id.ljust(width)}  {each.sentence}"


def _other_lines(other: OtherId) -> Iterator[str]:
    yield f"{click.style(other.id, bold=True)} ({other.belongs})"
    yield from _part("What it says", other.sentence)
    yield from _part("Why it matters", other.why)
    if other.scenarios:
        shown = f"turngate conform --scenario {other.scenarios[0]} --show"
        yield from _part("How it is tested", f"In the scenarios {', '.join(other.scenarios)}. Details: {shown}")


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
    before = "".join(f", {severity} before clause set {name}" for name, severity in clause.severity_before.items())
    about = f"{clause.severity}, level {clause.level}, since clause set {clause.since}{before}"
    yield f"{click.style(clause.id, bold=True)} ({about})"
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
    # ids and commands stay whole, so that they can be copied
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent + hanging, break_on_hyphens=False)
