"""The subcommands for many releases of one engine: `matrix` and `bisect`."""

import json
from pathlib import Path
from typing import Any

import click

from turngate_probes.cli.shared_options import (
    clause_option,
    clauses,
    engines,
    fail_on_options,
    many_releases,
    output_options,
)
from turngate_probes.report import FORMATS

SHARED = ("results", "cache_limit", "jobs", "registry")
PER_SHARD = 10
MOST_SHARDS = 20


@click.command()
@click.argument("subjects", nargs=-1, required=True, metavar="ENGINE | --merge DIR...", shell_complete=engines)
@click.option("--versions", metavar="WHICH", help="all, latest:N, a list `a,b,c`, or comparators `>=0.100 <0.150`.")
@click.option(
    "--level",
    type=click.Choice(["static", "hermetic", "long"]),
    default="hermetic",
    show_default=True,
    help="As in `probe`.",
)
@clause_option
@click.option("--shard", default="1/1", metavar="I/N", help="Probe the I-th of N parts.")
@fail_on_options
@click.option("--plan", type=click.Choice(["github"]), help="Print the `include` list of a job matrix, and exit.")
@click.option(
    "--shards", type=click.IntRange(1, 256), help="With --plan: number of shards, each with at least one release."
)
@click.option("--merge", is_flag=True, help="Join the results of shards, each a --results DIR, into one report.")
@output_options(*FORMATS)
@many_releases
def matrix(subjects: tuple[str, ...], **asked: Any) -> int:
    """Probe many published releases of an engine, and continue where a killed run stopped.

    Releases are installed into the cache without running their code, and checked against the hashes that the
    registry published. Pre-releases are probed only when they are listed.

    \b
    turngate matrix codex --versions latest:20
    turngate matrix gemini --versions '>=0.40 <0.50' --report report.json
    turngate matrix codex --versions all --shard 1/4 --results shard-1
    turngate matrix --merge shard-1 shard-2 shard-3 shard-4

    Exit codes are those of `probe`.
    """
    from turngate_probes.matrix import command
    from turngate_probes.matrix.run import matrix_settings
    from turngate_probes.releases.selection import known_clauses
    from turngate_probes.report.publish import publish
    from turngate_probes.report.release_view import view

    if asked["merge"]:
        folders = [Path(folder) for folder in subjects]
        answers = command.merged(folders, fail_on=asked["fail_on"])
        return publish(view(answers), asked["output"], folders[0])
    if len(subjects) > 1 or not asked["versions"]:
        raise click.UsageError("pass one ENGINE with --versions, or --merge with the folders of all shards")
    engine, clauses = command.engine_of(subjects[0], "--versions"), known_clauses(asked["clauses"], asked["level"])
    settings = matrix_settings(asked["level"], clauses, fail_on=asked["fail_on"], **{key: asked[key] for key in SHARED})
    if asked["plan"]:
        registry, versions = command.choose(engine, asked["versions"], asked["registry"])
        count = min(asked["shards"] or min(MOST_SHARDS, -(-len(versions) // PER_SHARD)), len(versions))
        click.echo(json.dumps(_include(engine, versions, count, registry.name)))
        return 0
    return command.run_matrix(engine, settings, asked["versions"], asked["shard"], asked["output"])


@click.command()
@click.argument("engine", shell_complete=engines)
@click.argument("clause", shell_complete=clauses)
@click.option("--good", metavar="VERSION", help="One end of the search.  [default: the oldest release]")
@click.option(
    "--bad", metavar="VERSION", help="The other end of the search.  [default: the newest release that has a result]"
)
@output_options(".json")
@many_releases
def bisect(engine: str, clause: str, **asked: Any) -> int:
    """Find the release that changed a clause's result.

    `turngate explain` lists the clauses.

    Looks at the newest release, then at those 1, 2, 4, 8, ... before it until the result differs, then halves the
    distance. The bundled history answers for the releases that it has. The others are tested, only on this clause and
    its prerequisites. --good and --bad narrow the range: neither has to pass, only their results must differ. Either
    may be the older one.

    Releases that are not available, or in which the clause can't be run, are skipped, like `git bisect skip`.
    If only skipped releases are left between two results, they are listed as candidates.

    \b
    turngate bisect codex resume.dead-handle
    turngate bisect codex resume.dead-handle --good 0.120.0 --bad 0.110.0
    turngate bisect gemini resume.same-handle --good 0.40.0 --json

    The next search reuses the results of this one.

    Exit codes: 0 found, or candidates listed; 2 no older release has another result, or an end can't answer; 130
    interrupted.
    """
    from turngate_probes.matrix import command
    from turngate_probes.matrix.run import matrix_settings
    from turngate_probes.releases.selection import known_clauses, level_of

    engine, level = command.engine_of(engine, "--good or --bad"), level_of(clause)
    settings = matrix_settings(level, known_clauses((clause,), level), **{key: asked[key] for key in SHARED})
    return command.run_bisection(engine, settings, clause, asked["good"], asked["bad"], asked["output"])


def _include(engine: str, versions: tuple[str, ...], count: int, registry: str) -> list[dict[str, str]]:
    # every shard gets all versions, so that the merge knows which ones a lost shard leaves out
    named = ",".join(versions)
    same = {"engine": engine, "versions": named, "registry": registry}
    return [same | {"shard": f"{i + 1}/{count}"} for i in range(count)]
