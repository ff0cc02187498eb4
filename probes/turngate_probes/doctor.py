"""Says what is known of the engines on this machine and of those that a project pins, from the histories of releases.

The release of an executable is read from its package. Only where there is none is `--version` run, and only of what
nobody else can have put on PATH or have chosen: whoever wrote a project can be a stranger. So an executable of the
project, or from a relative folder on PATH, is named but not run, those that are run find no program of the project on
their PATH, and what the shim of a version manager would run is read from the files by which it decides.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace
from semver import Version

from turngate import (
    ContractError,
    EngineContract,
    MachineError,
    NotFoundError,
    Stop,
    UsageError,
    engine_environment,
    engine_names,
    history,
)
from turngate.contract.cached import cached_contract
from turngate.contract.clauses import NEWEST_SET, Result
from turngate.contract.engine_contract import Deviation
from turngate.contract.verdict import Verdict
from turngate.files import command, repository_of
from turngate.history import History, KnownRelease
from turngate.process.copied_values import copied_values
from turngate.process.executable import is_simulated, on_path, printed, version_in
from turngate.process.installed_release import package_version
from turngate_probes.releases.project_pins import ProjectPin, project_pins
from turngate_probes.releases.selection import nearest
from turngate_probes.releases.version_managers import chosen, manager_of

TIMEOUT = 180.0  # seconds for an executable to print its version: a busy machine must not change the answer
_Text = Annotated[str, Meta(min_length=1)]


class Knowledge(StrEnum):
    """What turngate knows of a release.

    tested: It tested the release, whose verdict counts.
    untested: It knows the release, but has no verdict.
    unknown: It doesn't know the release, which may be newer than turngate, or a pre-release.
    no_such_release: No release has this version, although newer ones are known.
    no_history: It has no history of the engine.
    no_version: The executable didn't print which release it is.
    not_run: Its executable must not be run, so it isn't known which release it is.
    not_pinned: A file names the engine without a release that turngate understands, such as a range.
    """

    TESTED = "tested"
    UNTESTED = "untested"
    UNKNOWN = "unknown"
    NO_SUCH_RELEASE = "no_such_release"
    NO_HISTORY = "no_history"
    NO_VERSION = "no_version"
    NOT_RUN = "not_run"
    NOT_PINNED = "not_pinned"


class FoundAt(Struct, frozen=True, forbid_unknown_fields=True):
    """Where a release was found: an executable on `path`, or a `pin` as `file:line`.

    chosen_by: For the shim of a version manager, the `file:line` that makes it run this release; empty: it is none.
    """

    kind: Literal["path", "pin"]
    place: _Text
    chosen_by: str = ""


class FailedClause(Struct, frozen=True, forbid_unknown_fields=True):
    """A clause that fails, and what was observed."""

    clause: _Text
    detail: str


class RequiredAction(Struct, frozen=True, forbid_unknown_fields=True):
    """What an orchestrator must do about a known caveat; `symptoms` are those that the contract declares."""

    clause: _Text
    symptoms: tuple[_Text, ...]
    action: _Text


class NearRelease(Struct, frozen=True, forbid_unknown_fields=True):
    """A tested release below or above one that is unknown; `clause_set` and `level` name the clauses of its verdict."""

    version: _Text
    verdict: Verdict
    clause_set: _Text
    level: _Text = "hermetic"


class FoundRelease(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A release that was found, and what is known of it.

    version: null: unknown, as `detail` explains.
    detail: Why there is no version or no verdict, or why the release is broken; may be empty.
    verdict: null: it is not known.
    clause_set: The set of clauses that the verdict was given by. It says nothing about newer clauses.
    level: The level of that test: hermetic, or long, which includes the clauses about long sessions.
    profile: How an interactive run waits for its user; null: it is not known.
    measured: The date of the test; null: unknown.
    actions: By the contract; without those of a tested release that its test did not show.
    newer_safe: The newest compatible release, if it is newer; null: none is known.
    newer_safe_clause_set: The set of clauses by which that release is compatible.
    newer_safe_level: The level of that test.
    nearest: Of a release without a verdict, the nearest tested ones.
    command: Tests the release, if there is no verdict by the newest set of clauses; null: turngate can't.
    settings: Names of your settings that the contract knows to matter. Verdicts were measured without them; `turngate
        probe ENGINE --my-settings` tests with them.
    """

    engine: _Text
    title: _Text
    version: str | None
    found: tuple[FoundAt, ...]
    knowledge: Knowledge
    detail: str
    verdict: Verdict | None
    clause_set: str | None
    level: str | None
    profile: str | None
    measured: str | None
    failures: tuple[FailedClause, ...]
    actions: tuple[RequiredAction, ...]
    newer_safe: str | None
    newer_safe_clause_set: str | None
    newer_safe_level: str | None
    nearest: tuple[NearRelease, ...]
    command: str | None
    settings: tuple[_Text, ...] = ()

    @property
    def name(self) -> str:
        """The engine, with its version if that is known."""
        return f"{self.engine}@{self.version}" if self.version else self.engine


class DoctorReport(
    Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="schema", tag="turngate.doctor-report/1"
):
    """What was found in a folder and on PATH.

    folder: The folder whose files, and those in folders below it, were searched for pins.
    not_run_from: The folder of which no program was run; null: it is the home directory, which is no project, and of
        which the folders below were not searched.
    not_searched: What could not be searched for pins, and why. It makes the exit code 2.
    releases: By engine; those on PATH first.
    """

    folder: _Text
    not_run_from: str | None
    not_searched: tuple[_Text, ...] = ()
    releases: tuple[FoundRelease, ...]
    exit_code: Literal[0, 1, 2]


class Executable(Struct, frozen=True):
    """The executable of an engine on PATH, and its version, or why that is unknown.

    `refused`: why it must not be run; empty if it may be. `chosen_by`: the file by which a shim picks its release.
    """

    contract: EngineContract
    path: Path
    refused: str = ""
    chosen_by: str = ""
    version: str | None = None
    problem: str = ""


def examine(folder: Path, stop: Stop) -> DoctorReport:
    """Look for engines on PATH and for the pins of a folder; `stop` ends what runs."""
    contracts = [contract for contract in map(_newest, engine_names()) if contract]
    project = project_of(folder)
    executables = _versions([*_executables(contracts, project, folder)], project, stop)
    pins = project_pins(folder, contracts, below=project is not None)
    by_engine = {one.contract.engine: one for one in executables}
    releases = [
        release
        for contract in contracts
        for release in _of_engine(contract, by_engine.get(contract.engine), pins.by_engine[contract.engine])
    ]
    return DoctorReport(
        folder=str(folder),
        not_run_from=str(project) if project else None,
        not_searched=pins.not_searched,
        releases=tuple(releases),
        exit_code=exit_code([release.verdict for release in releases] + [None for _ in pins.not_searched]),
    )


def project_of(folder: Path) -> Path | None:
    """Return the folder whose programs are not run: the Git repository around `folder`, else `folder` itself.

    None: it is the home directory, or contains that, and is no repository.
    """
    real = Path(os.path.realpath(folder))
    if repository := repository_of(real):
        return repository
    # `~` stays as it is where nobody knows the home
    home = Path(os.path.realpath("/" if (known := os.path.expanduser("~")) == "~" else known))  # noqa: PTH111
    return None if real in (home, *home.parents) else real


def _newest(engine: str) -> EngineContract | None:
    with suppress(ContractError):
        return cached_contract(engine)
    return None


def _executables(contracts: Sequence[EngineContract], project: Path | None, folder: Path) -> Iterator[Executable]:
    """Yield the executable of each engine that is on PATH, with its version or the reason if it must not be run."""
    for contract in contracts:
        if found := on_path(contract.executable):
            one = Executable(contract, found.absolute(), refused=_why_not(found, project))
            yield one if one.refused else _by_files(one, folder)


def _by_files(one: Executable, folder: Path) -> Executable:
    """Return an executable with what its package or a version manager's files say of its release."""
    manager = manager_of(one.path)
    if manager is None:
        return replace(one, version=package_version(one.contract, one.path))
    if not manager:
        why = "it looks like the shim of a version manager, and nobody here knows what it would run in this folder"
        return replace(one, refused=why)
    if choice := chosen(manager, one.path, one.contract, folder):
        return replace(one, version=choice.version, refused=choice.problem, chosen_by=choice.place)
    return one


def _why_not(found: Path, project: Path | None) -> str:
    """Say why an executable must not be run; empty if it may be."""
    if not found.is_absolute():
        return f"the folder {str(found.parent)!r} on PATH is relative, so anybody's program could be there"
    if is_simulated(found):
        return "it is a simulated engine, which says nothing about the real one"
    if project and _is_inside(found, project):
        return f"it belongs to {project}, and no program of a project is run unasked"
    return ""


def _is_inside(path: Path, project: Path) -> bool:
    """Whether a path is in a folder, itself or by a link."""
    real = Path(os.path.realpath(path))
    by_name = Path(os.path.realpath(path.parent), path.name)
    return any(place == project or project in place.parents for place in (real, by_name))


def _versions(found: Sequence[Executable], project: Path | None, stop: Stop) -> list[Executable]:
    """Ask those executables for their versions that are not known yet and may be run, all at once.

    No answer is remembered: a file can stay the same and yet start another release.
    """
    known = [one for one in found if one.refused or one.version]
    asked = [one for one in found if not (one.refused or one.version)]
    if not asked:
        return known
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - slow to import, and seldom needed

    with ThreadPoolExecutor(len(asked)) as pool:
        answers = pool.map(lambda one: _asked(one, project, stop), asked)
    return [*known, *answers]


def _asked(one: Executable, project: Path | None, stop: Stop) -> Executable:
    """Ask an executable for its version."""
    contract = one.contract
    env = engine_environment(contract, _without_project(os.environ, project))
    try:
        output = printed(one.path, contract.version_query, env, stop, timeout=TIMEOUT)
    except (MachineError, UsageError) as failed:
        return replace(one, problem=failed.what)
    version = version_in(output, contract.version_query)[0]
    words = f"{one.path.name} {' '.join(contract.version_query.argv)}"
    ended = f"ended with exit code {output.exit_code} and" if output.exit_code else ""
    problem = f"`{words}` {ended} printed no version".replace("  ", " ")
    if output.exit_code is None:
        problem = f"`{words}` did not end within {TIMEOUT:.0f} s"
    return replace(one, version=version, problem="" if version else problem)


def _without_project(env: Mapping[str, str], project: Path | None) -> dict[str, str]:
    """Return an environment in whose PATH nothing belongs to the project, such as an interpreter."""
    kept = [entry for entry in os.get_exec_path(env) if not (project and _is_inside(Path(entry), project))]
    return {**env, "PATH": os.pathsep.join(kept)}


def _of_engine(contract: EngineContract, one: Executable | None, pins: Sequence[ProjectPin]) -> Iterator[FoundRelease]:
    """Yield each release of an engine that was found, the one on PATH first."""
    found = dict[str, list[FoundAt]]()
    if one:
        on = FoundAt("path", str(one.path), one.chosen_by)
        if one.version:
            found[one.version] = [on]
        else:
            why = Knowledge.NOT_RUN if one.refused else Knowledge.NO_VERSION
            yield replace(_release(contract, None, (on,), why), detail=one.refused or one.problem)
    unknown = dict[str, list[FoundAt]]()
    for pin in pins:
        at = FoundAt("pin", pin.place)
        if pin.version:
            found.setdefault(pin.version, []).append(at)
        else:
            unknown.setdefault(pin.flaw, []).append(at)
    for version, places in found.items():
        try:
            release = _known(contract, version, tuple(places), history.load(contract.engine))
        except NotFoundError:
            release = _release(contract, version, tuple(places), Knowledge.NO_HISTORY)
            release = replace(release, actions=_actions(contract.engine, version, None))
        yield replace(release, settings=_settings(contract.engine, version)) if places[0].kind == "path" else release
    for flaw, places in unknown.items():
        yield _not_pinned(contract, flaw, tuple(places))


def _not_pinned(contract: EngineContract, flaw: str, places: tuple[FoundAt, ...]) -> FoundRelease:
    """Return what is known where a file names an engine and no release."""
    safe = None
    with suppress(NotFoundError):
        safe = history.load(contract.engine).newest_safe()
    return replace(_release(contract, None, places, Knowledge.NOT_PINNED, safe), detail=flaw, command=None)


def _settings(engine: str, version: str) -> tuple[str, ...]:
    """Return the names of the user's settings that the contract of an installed release knows to matter."""
    with suppress(ContractError):  # it doesn't cover the release
        return copied_values(cached_contract(engine, version), os.environ).names
    return ()


def _known(contract: EngineContract, version: str, found: tuple[FoundAt, ...], past: History) -> FoundRelease:
    """Return what the history of an engine and its contract say about a release."""
    is_version = Version.is_valid(version)  # an executable can print anything
    is_listed = version in past.published or past.find(version) is not None
    known, safe = past.find(version), past.newest_safe(version) if is_version else None
    if known is None and is_version and past.is_release(version) is False:
        release = _release(contract, version, found, Knowledge.NO_SUCH_RELEASE)
        is_here = any(place.kind == "path" for place in found)
        near = ", ".join(nearest(version, past.published))
        return replace(release, detail=f"nearest: {near}", command=release.command if is_here else None)
    release = replace(
        _release(contract, version, found, Knowledge.UNTESTED if is_listed else Knowledge.UNKNOWN, safe),
        detail=known.why if known else "",
        actions=_actions(contract.engine, version, known),
    )
    if known is None or not known.tested:
        near_it = past.nearest(version) if is_version else ()
        tested = (
            NearRelease(one.version, one.verdict, one.clause_set, one.level) for one in near_it if one and one.verdict
        )
        return replace(release, nearest=tuple(tested))
    failing = [(clause, seen) for clause, seen in known.clauses.items() if seen.result is Result.FAIL]
    worst, _, observed = known.why.partition(": ")
    return replace(
        release,
        knowledge=Knowledge.TESTED,
        verdict=known.verdict,
        clause_set=known.clause_set,
        level=known.level,
        profile=known.profile,
        measured=known.measured or None,
        # of older results, only the worst failure says what was observed
        failures=tuple(
            FailedClause(clause, seen.detail or (observed if clause == worst else "")) for clause, seen in failing
        ),
        command=None if known.clause_set == NEWEST_SET else release.command,
    )


def _release(
    contract: EngineContract,
    version: str | None,
    found: tuple[FoundAt, ...],
    knowledge: Knowledge,
    safe: KnownRelease | None = None,
) -> FoundRelease:
    """Return a release of which nothing else is known than the newest `safe` one."""
    return FoundRelease(
        engine=contract.engine,
        title=contract.title,
        version=version,
        found=found,
        knowledge=knowledge,
        detail="",
        verdict=None,
        clause_set=None,
        level=None,
        profile=None,
        measured=None,
        failures=(),
        actions=(),
        newer_safe=safe.version if safe else None,
        newer_safe_clause_set=safe.clause_set if safe else None,
        newer_safe_level=safe.level if safe else None,
        nearest=(),
        command=_command(contract, version, found),
    )


def _command(contract: EngineContract, version: str | None, found: Sequence[FoundAt]) -> str | None:
    """Return the command that tests a release: what is on PATH, else what a registry has."""
    if any(place.kind == "path" for place in found):
        return command("probe", contract.engine)
    published = contract.published.npm or contract.published.pypi
    return command("probe", f"{contract.engine}@{version}") if published else None


def _actions(engine: str, version: str, known: KnownRelease | None) -> tuple[RequiredAction, ...]:
    """Return what an orchestrator must do, without what the test of a release showed not to occur."""
    by_action = dict[tuple[str, str], list[str]]()
    with suppress(ContractError):  # it doesn't cover the release
        for deviation in cached_contract(engine, version).deviations:
            if known is None or _may_occur(deviation, known):
                by_action.setdefault((deviation.clause, deviation.action), []).append(deviation.symptom)
    return tuple(RequiredAction(clause, tuple(symptoms), action) for (clause, action), symptoms in by_action.items())


def _may_occur(deviation: Deviation, known: KnownRelease) -> bool:
    """Whether a deviation occurred in a test, or it proves nothing: the clause was not run, or fails only sometimes."""
    result = known.clauses.get(deviation.clause)
    if result is None or result.result is Result.NOT_RUN or deviation.flaky:
        return True
    return deviation.symptom in result.symptoms


def exit_code(verdicts: Iterable[Verdict | None]) -> Literal[0, 1, 2]:
    """Return 1 if a release is broken or degraded, else 2 if one has no verdict or there is none, else 0."""
    of_all = [*verdicts]
    if Verdict.BROKEN in of_all or Verdict.DEGRADED in of_all:
        return 1
    return 0 if of_all and set(of_all) == {Verdict.COMPATIBLE} else 2
