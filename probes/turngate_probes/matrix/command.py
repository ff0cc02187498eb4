"""The commands `matrix` and `bisect`: choosing releases, probing them, reporting.

`bisect` finds the release in which a clause's result changed, with as few probes as possible. The bundled history
answers for the releases that it has.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct, structs
from rich.console import Console
from rich.text import Text

from turngate import NotFoundError, Stop, UsageError, history
from turngate.contract import load
from turngate.contract.clauses import NEWEST_SET, Result
from turngate.contract.verdict import BECAME, Evidence, FailOn, fallen_needs
from turngate.files import is_own
from turngate.process.sessions import adopting_orphans
from turngate.sanitize import visible
from turngate_probes.clauses.checks import LEVELS
from turngate_probes.harness.interrupt import InterruptedCaseError, interruptible
from turngate_probes.journal.events import MatrixPlanned
from turngate_probes.matrix.results import joined, plans
from turngate_probes.matrix.run import Listener, Matrix, MatrixSettings
from turngate_probes.releases.registry import Registry, RegistryName
from turngate_probes.releases.selection import chosen, nearest, parse_shard
from turngate_probes.releases.source import published
from turngate_probes.releases.target import parse_target
from turngate_probes.report.evidence import evidence_lines
from turngate_probes.report.lines import Detail, print_line, style_of
from turngate_probes.report.progress import live
from turngate_probes.report.publish import Printer, publish, write_json
from turngate_probes.report.release_view import view
from turngate_probes.report.reports import ProbeReport, ReleaseReport


class ClauseAnswer(Struct, frozen=True):
    """The result of the clause on one release.

    result: null: it could not be run there, and the detail says why; never `not_run`.
    evidence: Turns and calls, as in a probe report.
    """

    version: str
    result: Result | None
    detail: str
    evidence: Sequence[Evidence] = ()


class BisectReport(Struct, frozen=True, tag_field="schema", tag="turngate.bisect-report/1"):
    """The release in which the newest result of a clause began.

    changed: false: no older release has another result.
    before: The last release with another result.
    after: The first release with the newest result.
    candidates: Where the result may have begun, oldest first: the skipped releases and `after`; one: exact.
    skipped: The releases between the two, in which the clause could not be run.
    asked: Every release that was tested, in that order, without evidence; what the history knows was not tested.
    published: The number of published releases that the contract covers.
    """

    engine: str
    clause: str
    changed: bool
    before: ClauseAnswer | None
    after: ClauseAnswer | None
    candidates: list[str]
    skipped: list[ClauseAnswer]
    asked: list[ClauseAnswer]
    published: int


class ResultChange(NamedTuple):
    """Where the newest result began: between these places in the list, with only skipped releases in between."""

    before: int
    after: int


class Bisection:
    """Searches a list of releases, oldest first; `ask` tests one release and is called at most once for each.

    What is `known` of a release needs no test. `left` is how many more releases the search tests at most after the
    current one, unless it must skip some.
    """

    def __init__(
        self, versions: Sequence[str], ask: Callable[[str], ClauseAnswer], known: Mapping[str, ClauseAnswer] = {}
    ) -> None:
        """Start a search in which nothing has been tested yet."""
        self.versions, self.known = versions, known
        self.asked: dict[str, ClauseAnswer] = {}
        self._looked_at = set[str]()
        self.left = 0
        self._ask = ask

    def search(self, good: str | None = None, bad: str | None = None) -> ResultChange | None:
        """Find where the result of `bad` (None: the newest release with a result) began, no earlier than `good`.

        If `good` is the newer of the two, find where its result began instead. Return None if no older release has
        another result. UsageError: an end is not published or has no result, both ends are the same release, or no
        release has a result.
        """
        ends = self._place(good) if good else 0, self._place(bad) if bad else len(self.versions) - 1
        if good and bad and ends[0] == ends[1]:
            raise UsageError(
                f"--good and --bad are the same release, {good}", "name two releases with a change between"
            )
        if good and bad and ends[0] > ends[1]:
            good, bad = bad, good
        oldest, newest = sorted(ends) if good and bad else ends
        self.left = _leaps(newest - oldest) + _halvings(newest - oldest)
        newest = self._end(newest) if bad else self._newest_answering(oldest, newest)
        before = None
        if good:
            self.left -= 1
            before = self._end(oldest)
        if before is not None and self._same(before, newest):
            return None
        before, after = self._leap(oldest, newest, before)
        return self._halve(oldest, before, after)

    def skipped(self, change: ResultChange) -> list[ClauseAnswer]:
        """List the releases inside a change that were tested without a result."""
        return [self.answer(place) for place in range(change.before + 1, change.after)]

    def answer(self, place: int) -> ClauseAnswer:
        """Return the result of the release at an index of the list; it is tested now if necessary."""
        version = self.versions[place]
        self._looked_at.add(version)
        if version in self.known:
            return self.known[version]
        if version not in self.asked:
            self.asked[version] = self._ask(version)
        return self.asked[version]

    def _leap(self, oldest: int, newest: int, before: int | None) -> tuple[int | None, int]:
        """Test 1, 2, 4, 8, ... releases back until the result differs, which finds the last of several changes."""
        after, step, span = newest, 1, newest - oldest
        while step < 2 * span:
            place = max(newest - step, oldest)
            # the last one leads to `before`, which was tested
            self.left = _leaps(span) - step.bit_length() - (before is not None) + _halvings(span)
            if place == before or self._differs(place, newest):
                return place, after
            after = place if self._same(place, newest) else after
            step *= 2
        return None, after

    def _halve(self, oldest: int, before: int | None, after: int) -> ResultChange | None:
        """Test the middle of the widest gap until every release inside the change was skipped."""
        while before is not None or not self._same(oldest, after):
            low = oldest - 1 if before is None else before
            place = self._middle_of_widest_gap(low, after)
            if place is None:
                break
            self.left = (after - low - 1).bit_length() - 1
            if self._same(place, after):
                after = place
            elif self._differs(place, after):
                before = place
        return None if before is None else ResultChange(before, after)

    def _middle_of_widest_gap(self, low: int, high: int) -> int | None:
        """Return the middle of the longest run of untested releases; of two equal runs, the newer one."""
        known = [low, *(at for at in range(low + 1, high) if self.versions[at] in self._looked_at), high]
        width, end = max((right - left, right) for left, right in pairwise(known))
        return end - width // 2 if width > 1 else None

    def _same(self, place: int, other: int) -> bool:
        return self.answer(place).result is self.answer(other).result

    def _differs(self, place: int, other: int) -> bool:
        return self.answer(place).result not in (None, self.answer(other).result)

    def _place(self, version: str) -> int:
        if version not in self.versions:
            near = ", ".join(nearest(version, self.versions))
            raise NotFoundError(
                f"{version} is not a published release that the contract covers", f"nearest: {near}" if near else ""
            )
        return self.versions.index(version)

    def _end(self, place: int) -> int:
        answer = self.answer(place)
        if answer.result is None:
            raise UsageError(
                f"{answer.version} can't be tested: {answer.detail}", "choose another release for that end"
            )
        return place

    def _newest_answering(self, oldest: int, newest: int) -> int:
        for place in range(newest, oldest - 1, -1):
            if self.answer(place).result is not None:
                return place
        first = next(iter(self.asked.values()), None)
        what = "the contract covers no published release"
        if first:
            what = f"none of {len(self.asked)} releases can be tested; {first.version}: {first.detail}"
        raise UsageError(what, "run `turngate probe` to see why, or pass --bad")


def _leaps(span: int) -> int:
    """Return how many releases are tested 1, 2, 4, 8, ... before one until the oldest of a span is reached."""
    return max(0, 2 * span - 1).bit_length()


def _halvings(span: int) -> int:
    """Return how often the widest gap that those tests leave can be halved."""
    return max(0, span // 2 - 1).bit_length()


def answer_of(release: ReleaseReport, clause_id: str) -> ClauseAnswer:
    """Read a release of a report; `not_run` is not a result, and the detail names the failed prerequisite."""
    version = str(release.version)
    if release.failed:
        return ClauseAnswer(version, None, release.failed.what)
    clauses = {clause.id: clause for clause in release.clauses}
    clause = clauses[clause_id]
    if clause.result is not Result.NOT_RUN:
        return ClauseAnswer(version, clause.result, clause.detail, clause.evidence)
    fallen = fallen_needs(clauses, clause_id)
    details = (f"needs {need.id}, which {BECAME[need.result]}: {need.detail}" for need in fallen)
    return ClauseAnswer(version, None, next(details, clause.detail))


def known_answers(engine: str, clause_id: str) -> dict[str, ClauseAnswer]:
    """Return what the bundled history knows of a clause, by version; nothing if the user has another contract."""
    if engine not in history.engines() or is_own(engine):
        return {}
    answers, clause = {}, load.catalogue()[clause_id]
    for release in history.load(engine).releases:
        known = release.clauses.get(clause_id)
        if clause.every_turn and known and known.result is Result.PASS and release.clause_set < NEWEST_SET:
            continue  # a test of today has more turns in which it can fail
        was_asked = clause.since <= release.clause_set and clause.level in LEVELS[release.level]
        # a history keeps no result of a clause that could not be run
        if known is None and (release.verdict is None or not was_asked):
            continue
        result = known.result if known and known.result is not Result.NOT_RUN else None
        why = (known.detail or ", ".join(known.symptoms)) if known else ""
        source = ", ".join(filter(None, ("from turngate's history", release.measured)))
        told = f"{why or release.why or 'as expected'} ({source})"
        answers[release.version] = ClauseAnswer(release.version, result, told)
    return answers


def describe(engine: str, clause_id: str, search: Bisection, change: ResultChange | None) -> BisectReport:
    """Describe a search."""
    skipped = search.skipped(change) if change else []
    after = search.answer(change.after) if change else None
    return BisectReport(
        engine,
        clause_id,
        change is not None,
        search.answer(change.before) if change else None,
        after,
        candidates=[answer.version for answer in (*skipped, after) if answer is not None],
        skipped=skipped,
        asked=[structs.replace(answer, evidence=[]) for answer in search.asked.values()],
        published=len(search.versions),
    )


def print_bisection(output: Printer, report: BisectReport) -> None:
    """Print what a search found."""
    console = output.console
    print_line(console, 0, Text(visible(_headline(report))))
    if output.detail is Detail.QUIET:
        return
    for answer in filter(None, (report.before, report.after)):
        _print_answer(console, report.engine, answer)
        for item in answer.evidence:
            for depth, line in evidence_lines(item):
                print_line(console, depth, line)
    if report.skipped:
        print_line(console, 0, Text("skipped, because the clause can't be tested there:"))
        for answer in report.skipped:
            _print_answer(console, report.engine, answer)
    if output.detail is Detail.VERBOSE:
        print_line(console, 0, Text("every tested release, in that order:"))
        for answer in report.asked:
            _print_answer(console, report.engine, answer)
    names = ", ".join(answer.version + ("" if answer.result else " (skipped)") for answer in report.asked)
    tested = f"tested {len(report.asked)} of {report.published} releases{names and ': '}{names}"
    print_line(console, 0, Text(visible(tested)))


def _headline(report: BisectReport) -> str:
    if report.after is None:
        result = next((answer.result for answer in report.asked if answer.result), None)
        told = f"{_words(result)} in every release that could be tested" if result else "every known result is the same"
        return f"{report.clause} does not change: {told}"
    since = f"{report.clause}: {_words(report.after.result)} since"
    if len(report.candidates) == 1:
        return f"{since} {report.engine} {report.candidates[0]}"
    return f"{since} one of {len(report.candidates)} releases of {report.engine}: {', '.join(report.candidates)}"


def _print_answer(console: Console, engine: str, answer: ClauseAnswer) -> None:
    line = Text(f"{engine}@{answer.version} ").append(_words(answer.result), style_of(answer.result or "skipped"))
    print_line(console, 1, line.append(visible(f": {answer.detail}")))


def _words(result: Result | None) -> str:
    return result.value.replace("_", " ") if result else "skipped"


def engine_of(text: str, options: str) -> str:
    """Read the name of an engine; UsageError if it is a release, which belongs into one of `options`."""
    target = parse_target(text)
    if target.version or target.path:
        raise UsageError(f"{text!r} is not just an engine", f"pass versions with {options}")
    return target.engine


def choose(
    engine: str, spec: str, name: RegistryName | None, stop: Stop | None = None
) -> tuple[Registry, tuple[str, ...]]:
    """Choose from the releases in a registry; TurngateError if it can't be reached, or nothing is chosen."""
    registry = published(engine, name, stop)
    versions = chosen(spec, registry.versions)
    registry = registry.with_integrity(versions, stop)
    for version in versions:
        if not registry.has(version):
            raise registry.no_such_version(version)
    return registry, versions


def run_matrix(engine: str, settings: MatrixSettings, spec: str, shard: str, output: Printer) -> int:
    """Probe what `spec` chooses and report on it; return the exit code."""
    part = parse_shard(shard)
    with adopting_orphans(), interruptible() as interrupt:
        with interrupt.scope() as stop:
            registry, versions = choose(engine, spec, settings.registry, stop)
        _tell_staleness(registry, output)
        if len(versions) < part[0]:
            raise UsageError(f"shard {shard} of {len(versions)} releases is empty", "use fewer shards")
        with live(output.progress, interrupt) as listener:
            answers = Matrix(registry, versions, settings, listener, interrupt, part).run()
    return publish(view(answers), output, settings.folder)


def merged(folders: Sequence[Path], *, fail_on: FailOn) -> ProbeReport:
    """Merge the results of shards in these folders; UsageError if they don't fit together."""
    return joined([plan for folder in folders for plan in plans(folder)], folders, fail_on=fail_on, merging=True)


def run_bisection(
    engine: str, settings: MatrixSettings, clause: str, good: str | None, bad: str | None, output: Printer
) -> int:
    """Find where the newest result of a clause began and print it; return the exit code."""
    with adopting_orphans(), interruptible() as interrupt, live(output.progress, interrupt) as listener:

        def ask(version: str) -> ClauseAnswer:
            listener(MatrixPlanned(releases=len(search.asked) + 1 + search.left, kept=0, at_most=True))
            answers = Matrix(registry, (version,), settings, _unplanned(listener), interrupt).run()
            if interrupt.is_set():
                raise InterruptedCaseError
            return answer_of(answers.releases[0], clause)

        with interrupt.scope() as stop:
            registry = published(engine, settings.registry, stop)
        _tell_staleness(registry, output)
        covered = [version for version in chosen("all", registry.versions) if load.find_contract(engine, version)]
        search = Bisection(covered, ask, known_answers(engine, clause))
        change = search.search(good, bad)
    outcome = describe(engine, clause, search, change)
    write_json(outcome, output)
    print_bisection(output, outcome)
    return 0 if change else 2


def _tell_staleness(registry: Registry, output: Printer) -> None:
    if registry.staleness:
        print_line(output.console, 0, Text(registry.staleness))


def _unplanned(listener: Listener) -> Listener:
    """Pass on every event except a matrix's count of releases, which a search reports once."""
    return lambda event: None if isinstance(event, MatrixPlanned) else listener(event)
