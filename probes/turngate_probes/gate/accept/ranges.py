"""Converts the results of a gate to ranges in a contract: which claims end, begin or are added. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from typing import Any

from msgspec import Struct

from turngate import ContractError
from turngate.contract import lint, load
from turngate.contract.clauses import Result
from turngate.contract.versions import parse, stretches
from turngate_probes.gate.accept import edit
from turngate_probes.gate.accept.edit import Claim
from turngate_probes.report.reports import Difference, ReleaseReport

STALE = re.compile(r"stale: the declared deviation (\S+) did not occur")
SYMPTOMS = re.compile(r" \[([a-z0-9-]+(?:, [a-z0-9-]+)*)\]\Z")
TO_BE_WRITTEN = "(write this before you commit)"


class Rewritten(Struct, frozen=True):
    """The new text, its changes, and what a person must still do."""

    text: str
    done: tuple[str, ...]
    left: tuple[str, ...]


def rewrite(
    text: str,
    old: ReleaseReport,
    new: ReleaseReport,
    differences: Iterable[Difference],
    compensations: Mapping[tuple[str, str], str],
) -> Rewritten:
    """Write the results of a gate into a contract; ContractError if the new contract would be invalid.

    `compensations` are those of all contracts by clause and symptom, for deviations that are new here.
    """
    upgrade = _Upgrade(text, old, new, differences)
    upgrade.end_deviations()
    upgrade.end_options()
    upgrade.add_events()
    deviations = upgrade.new_deviations(compensations)
    changed = edit.written(upgrade.contract) if upgrade.done else text
    changed = edit.added(changed, "deviations", deviations) if deviations else changed
    for error in lint.problems(load.parse(changed, "the edited contract", ours=True)):
        raise ContractError(f"the changed contract would be invalid: {error}", hint="edit the contract by hand")
    return Rewritten(changed, tuple(upgrade.done), tuple(upgrade.left))


class _Upgrade:
    """A contract during its changes, with what is done and what is left to a person."""

    def __init__(self, text: str, old: ReleaseReport, new: ReleaseReport, differences: Iterable[Difference]) -> None:
        self._older, self._newer = str(old.version), str(new.version)
        self._was = {clause.id: clause for clause in old.clauses}
        self._now, self._differences = new.clauses, list(differences)
        self.contract = edit.read(text)
        self.done, self.left = list[str](), list[str]()

    def end_deviations(self) -> None:
        """End deviations that the older release has and the newer one does not."""
        for clause in self._now:
            before = set(STALE.findall(self._was[clause.id].detail if clause.id in self._was else ""))
            for symptom in sorted(set(STALE.findall(clause.detail) if clause.stale else ()) - before):
                claim = self._claim("deviations", clause=clause.id, symptom=symptom)
                observed = f"{self._older} deviates, {self._newer} does not"
                self._close(claim, observed, f"deviations: {clause.id} {symptom} ends before {self._newer}")

    def new_deviations(self, compensations: Mapping[tuple[str, str], str]) -> list[dict[str, Any]]:
        """Return a deviation for each symptom that only the newer release has."""
        deviations = list[dict[str, Any]]()
        sayable = {clause.id for clause in load.catalogue().values() if not clause.baseline}
        failed = {clause.id for clause in self._was.values() if clause.result is Result.FAIL}
        for clause in self._now:
            if clause.result is not Result.FAIL or clause.id in failed:
                continue
            symptoms = SYMPTOMS.search(clause.detail)
            if not symptoms or clause.id not in sayable:
                self.left.append(f"{clause.id} fails, which no range can express: {clause.detail}")
                continue
            observed = f"{self._older} does not deviate, {self._newer} does"
            if clause.level == "gate":
                observed = f"{self._older} and {self._newer} in a shared HOME"
            for symptom in symptoms[1].split(", "):
                action = compensations.get((clause.id, symptom), TO_BE_WRITTEN)
                deviations.append(
                    {
                        "clause": clause.id,
                        "since": self._newer,
                        "symptom": symptom,
                        "action": action,
                        "evidence": [edit.observation(observed)],
                    }
                )
                self.done.append(f"deviations: {clause.id} {symptom} begins with {self._newer}")
        return deviations

    def end_options(self) -> None:
        """End options and names that are no longer on any help page."""
        gone = [row.subject for row in self._differences if row.kind == "option" and row.after is None]
        observed = f"the help of {self._older} contains {{}}, that of {self._newer} does not"
        for name in gone:
            if claim := self._claim("options", flag=name):
                self._close(claim, observed.format(name), f"options: {name} ends before {self._newer}")
        pages = self._claim("help")
        listed = {str(name) for name in _names(pages)} if pages else set()
        if pages and (missing := sorted(listed & set(gone))):
            left = deepcopy(stretches(pages)[-1].data["pages"])
            for page in left:
                page["names"][:] = [name for name in page["names"] if name not in missing]
            evidence = observed.format(", ".join(missing))
            self.contract = edit.change(self.contract, pages, self._newer, {"pages": left}, evidence)
            self.done.append(f"help: {', '.join(missing)} not required from {self._newer} on")

    def add_events(self) -> None:
        """Add new kinds of records to the list of known ones, which promises none and so has no range."""
        if claim := self._claim("events"):
            names = stretches(claim)[-1].data["names"]
            for row in self._differences:
                if row.kind == "event" and row.before is None and row.after not in names:
                    names.append(row.after)
                    self.done.append(f"events: {row.after} is known")

    def _claim(self, section: str, **wanted: str) -> Claim | None:
        for claim in edit.entries(self.contract, section):
            last = stretches(claim)[-1]
            if last.range.covers(self._newer) and all(last.data.get(key) == wanted[key] for key in wanted):
                return claim
        return None

    def _close(self, claim: Claim | None, observed: str, what: str) -> None:
        since = stretches(claim)[-1].range.since if claim else None
        if claim is None or (since and parse(since) >= parse(self._newer)):
            self.left.append(f"{what}: its claim begins there, or doesn't exist")
            return
        edit.close(claim, self._newer, observed)
        self.done.append(what)


def _names(pages: Claim) -> Iterator[Any]:
    return (name for page in stretches(pages)[-1].data["pages"] for name in page["names"])
