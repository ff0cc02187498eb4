"""Finds the first release where a clause's result changes, asking as few releases as it must."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from turngate.clauses import Result
from turngate.errors import EnvironmentFailed
from turngate.load import catalogue

SCHEMA = "turngate.bisect-report/1"
# what says that a need of the clause failed, and thus that the clause was answered
FALLEN = (Result.FAIL, Result.UNSUPPORTED)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a release says of the clause; `result` None: it was not answered, and `detail` says why."""

    version: str
    result: Result | None
    detail: str
    evidence: Sequence[Any] = ()


@dataclass(slots=True)
class Bisection:
    """The search between two ends; `ask` asks one release, and is called once for each."""

    versions: Sequence[str]
    ask: Callable[[str], Answer]
    asked: dict[str, Answer] = field(default_factory=dict)

    def ends(self, good: str | None, bad: str | None) -> tuple[int, int]:
        """Place both ends: those given, which must answer, else the outermost that do; EnvironmentFailed if none."""
        last = len(self.versions) - 1
        low = self._given(good) if good else self._answering(range(last + 1))
        high = self._given(bad) if bad else self._answering(range(last, low, -1))
        if low >= high:
            raise EnvironmentFailed(
                "--good must be an older release than --bad", "the change is looked for between them"
            )
        return low, high

    def between(self, low: int, high: int) -> tuple[int, int] | None:
        """Narrow both ends until no release between them answers; None if their results don't differ."""
        was = self._asked(low).result
        if self._asked(high).result is was:
            return None
        while (middle := self._middle(low, high)) is not None:
            answer = self._asked(middle)
            if answer.result is None:
                continue
            low, high = (middle, high) if answer.result is was else (low, middle)
        return low, high

    def skipped(self, low: int, high: int) -> list[Answer]:
        """List the releases between two places that were asked and did not answer."""
        return [self.asked[each] for each in self.versions[low + 1 : high]]

    def _middle(self, low: int, high: int) -> int | None:
        open_ = [at for at in range(low + 1, high) if self.versions[at] not in self.asked]
        return min(open_, key=lambda at: abs(2 * at - low - high), default=None)

    def _asked(self, at: int) -> Answer:
        version = self.versions[at]
        if version not in self.asked:
            self.asked[version] = self.ask(version)
        return self.asked[version]

    def _given(self, version: str) -> int:
        if version not in self.versions:
            raise EnvironmentFailed(f"{version} is no published release that the contract covers", "name another one")
        at = self.versions.index(version)
        answer = self._asked(at)
        if answer.result is None:
            raise EnvironmentFailed(f"{version} does not answer: {answer.detail}", "name another release for that end")
        return at

    def _answering(self, places: range) -> int:
        for at in places:
            if self._asked(at).result is not None:
                return at
        raise EnvironmentFailed("no release answers for an end of the search", "name --good and --bad")


def answer_of(release: Mapping[str, Any], clause_id: str) -> Answer:
    """Read a release of a report: `not_run` is an answer if what the clause needs was asked and fell."""
    version, found = str(release["version"]), {each["id"]: each for each in release["clauses"]}
    clause = found[clause_id]
    if release["failed"]:
        return Answer(version, None, release["failed"]["what"])
    result = Result(clause["result"])
    fallen = any(found[need]["result"] in FALLEN for need in _needs(clause_id) if need in found)
    if result is Result.NOT_RUN and not fallen:
        return Answer(version, None, clause["detail"])
    return Answer(version, result, clause["detail"], clause["evidence"])


def told(engine: str, clause_id: str, search: Bisection, found: tuple[int, int] | None) -> dict[str, Any]:
    """Describe a search as data, by the schema `bisect-report`."""
    low, high = found or (0, 0)
    neighbours = [_told(search.asked[search.versions[at]]) for at in found or ()]
    return {
        "schema": SCHEMA, "engine": engine, "clause": clause_id, "changed": found is not None,
        "before": neighbours[0] if found else None, "after": neighbours[1] if found else None,
        "skipped": [_told(each) for each in search.skipped(low, high)] if found else [],
        "asked": [_told(each) | {"evidence": []} for each in search.asked.values()],
        "published": len(search.versions),
    }  # fmt: skip


def _told(answer: Answer) -> dict[str, Any]:
    result = answer.result.value if answer.result else None
    return {"version": answer.version, "result": result, "detail": answer.detail, "evidence": list(answer.evidence)}


def _needs(clause_id: str) -> set[str]:
    needs = set(catalogue()[clause_id].needs)
    return needs.union(*map(_needs, needs))
