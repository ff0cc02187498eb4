"""What a gate's results change in the contract of the engine, as text to paste, each with its file and line.

Only a person can say that a change is meant, so nothing is written. A contract of an installed turngate is nobody's to
edit, so it has no edits.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import yaml
from msgspec import Struct
from semver import Version

from turngate import engine_names
from turngate.contract import load
from turngate.contract.clauses import Result
from turngate.contract.load import Document
from turngate.contract.versions import Claim, Path_, parse
from turngate.files import contract_files, overlay
from turngate_probes.releases.recorded_releases import CHECKOUT
from turngate_probes.report.reports import GateOutcome, GateReport
from turngate_probes.report.source_locations import relative

STALE = re.compile(r"stale: the declared deviation (\S+) did not occur")
SYMPTOMS = re.compile(r" \[([a-z0-9-]+(?:, [a-z0-9-]+)*)\]\Z")
TO_BE_WRITTEN = "(write what an orchestrator must do)"


class ContractEdit(Struct, frozen=True):
    """One change of a contract: where, what it says, and the text to paste there."""

    file: str
    line: int
    what: str
    text: str

    @property
    def place(self) -> str:
        """The file and the line."""
        return f"{self.file}:{self.line}"


def contract_edits(report: GateReport) -> tuple[ContractEdit, ...]:
    """Return what the newer release changes in a contract that can be edited: one of the user's, or of a checkout."""
    is_answered = report.outcome in (GateOutcome.PASS, GateOutcome.FAIL)
    if not is_answered or not all(Version.is_valid(release.version or "") for release in (report.old, report.new)):
        return ()
    file = contract_files().get(report.engine)
    own = overlay()
    if file is None or not (CHECKOUT.is_dir() or (own and own.resolve() in file.resolve().parents)):
        return ()
    return tuple(_Edits(report, load.contract(report.engine).document, file).all())


class _Edits:
    """A gate's report, and the contract that it is compared with."""

    def __init__(self, report: GateReport, document: Document, file: Path) -> None:
        self._report, self._document, self._file = report, document, relative(file) or str(file)
        self._older, self._newer = str(report.old.version), str(report.new.version)
        self._was = {clause.id: clause for clause in report.probe.releases[0].clauses}

    def all(self) -> Iterator[ContractEdit]:
        """Yield the edits, those of deviations first."""
        yield from self._ended_deviations()
        yield from self._new_deviations()
        yield from self._ended_options()
        yield from self._names_of_help_pages()
        yield from self._new_events()

    def _ended_deviations(self) -> Iterator[ContractEdit]:
        """End each deviation that the older release has and the newer one does not."""
        for clause in self._report.newer.clauses:
            before = set(STALE.findall(self._was[clause.id].detail if clause.id in self._was else ""))
            for symptom in sorted(set(STALE.findall(clause.detail) if clause.stale else ()) - before):
                claim = self._claim("deviations", clause=clause.id, symptom=symptom)
                what = f"deviation {clause.id} {symptom} ends before {self._newer}"
                yield from self._end(claim, what, f"{self._older} deviates, {self._newer} does not")

    def _new_deviations(self) -> Iterator[ContractEdit]:
        """Add a deviation for each symptom that only the newer release has."""
        declarable = {clause.id for clause in load.catalogue().values() if not clause.baseline}
        for clause in self._report.newer.clauses:
            was = self._was.get(clause.id)
            symptoms = SYMPTOMS.search(clause.detail) if clause.result is Result.FAIL else None
            if not symptoms or clause.id not in declarable or (was and was.result is Result.FAIL):
                continue
            observed = f"{self._older} does not deviate, {self._newer} does"
            if clause.level == "gate":
                observed = f"{self._older} and {self._newer} in a shared HOME"
            for symptom in symptoms[1].split(", "):
                deviation = {
                    "clause": clause.id,
                    "symptom": symptom,
                    "action": _known_actions().get((clause.id, symptom), TO_BE_WRITTEN),
                    "since": self._newer,
                    "evidence": [{"observed": observed}],
                }
                what = f"deviation {clause.id} {symptom} begins with {self._newer}: add to `deviations`"
                yield self._edit(("deviations",), what, [deviation])

    def _ended_options(self) -> Iterator[ContractEdit]:
        """End each option that is on no help page of the newer release."""
        for name in self._gone():
            if claim := self._claim("options", flag=name):
                yield from self._end(claim, f"option {name} ends before {self._newer}", self._off_the_page(name))

    def _names_of_help_pages(self) -> Iterator[ContractEdit]:
        """Require no name of a help page that the newer release has not."""
        claim = self._claim("help")
        pages = claim.data.get("pages", ()) if claim else ()
        missing = sorted({name for page in pages for name in page.get("names", ())} & set(self._gone()))
        if claim and missing:
            left = [page | {"names": [name for name in page.get("names", ()) if name not in missing]} for page in pages]
            evidence = [{"observed": self._off_the_page(", ".join(missing))}]
            change = {"since": self._newer, "set": {"pages": left}, "evidence": evidence}
            what = f"{', '.join(missing)}: not required on a help page from {self._newer} on: add to `changes`"
            yield self._edit(claim.entry, what, [change])

    def _new_events(self) -> Iterator[ContractEdit]:
        """Add new kinds of records to the known ones, which have no range."""
        if claim := self._claim("events"):
            new = [
                row.after
                for row in self._report.differences
                if row.kind == "event" and row.before is None and row.after not in claim.data["names"]
            ]
            if new:
                yield self._edit(claim.at("names"), "new kinds of records: add to `names`", new)

    def _gone(self) -> list[str]:
        return [row.subject for row in self._report.differences if row.kind == "option" and row.after is None]

    def _off_the_page(self, names: str) -> str:
        return f"the help of {self._older} contains {names}, that of {self._newer} does not"

    def _claim(self, section: str, **wanted: str) -> Claim | None:
        """Return the claim of a section that holds for the newer release and has these values."""
        for claim in self._document.claims(section):
            if claim.range.covers(self._newer) and all(claim.data.get(key) == wanted[key] for key in wanted):
                return claim
        return None

    def _end(self, claim: Claim | None, what: str, observed: str) -> Iterator[ContractEdit]:
        """End a claim, unless it begins with the newer release."""
        if claim and not (claim.range.since and parse(claim.range.since) >= parse(self._newer)):
            end = {"until": self._newer, "evidence": [{"observed": observed}]}
            yield self._edit(claim.entry, f"{what}: add to its entry", end)

    def _edit(self, path: Path_, what: str, data: object) -> ContractEdit:
        text = yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=1 << 20, default_flow_style=None)
        line = self._document.error(path, what).line or 1
        return ContractEdit(self._file, line, what, text.rstrip("\n"))


def _known_actions() -> dict[tuple[str, str], str]:
    """Collect what the contracts of all engines say about a symptom of a clause."""
    return {
        (claim.data["clause"], claim.data["symptom"]): claim.data["action"]
        for engine in engine_names()
        for claim in load.contract(engine).document.claims("deviations")
    }
