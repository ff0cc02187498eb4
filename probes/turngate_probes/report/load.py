"""Reads the reports and journals of probes from files, which may be untrusted, and joins them to one report."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Never

import msgspec

from turngate import UsageError
from turngate.contract.clauses import Result, Severity
from turngate.contract.verdict import FailOn, Verdict, decode_hook
from turngate.decoding import convert
from turngate.formats import NewerFormatError, version_of
from turngate_probes.journal.journal import read
from turngate_probes.report import FORMATS
from turngate_probes.report.build import build, code_of
from turngate_probes.report.reports import ProbeReport, ReleaseReport

MOST_BYTES = 256 * 1024 * 1024
BREAKS = (Severity.BREAKING, Result.FAIL)
HINT = "pass the JSON report (--report FILE.json) or the journal of a probe; no other format can be read"
_SCHEMA = str(ProbeReport.__struct_config__.tag)


def load_report(path: Path) -> ProbeReport:
    """Read a report (`.json`) or build it from a journal; UsageError if a file is neither."""
    if path.suffix.lower() in FORMATS and path.suffix.lower() != ".json":
        raise UsageError(f"{path} can't be read: of the formats of reports, only JSON can", HINT)
    with refused(path):
        report = _report(path) if path.suffix.lower() == ".json" else build(read(_bounded(path)))
        wrong = contradiction(report)
    if wrong:
        raise UsageError(f"{path} is not a valid report: {wrong}", HINT)
    return report


def read_json(path: Path) -> Any:
    """Read a file as JSON; UsageError if it can't be read."""
    with refused(path):
        return _json(path)


@contextmanager
def refused(path: Path) -> Iterator[None]:
    """Turn any error in a file into UsageError."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"can't read {path}: {error.strerror}") from error
    except KeyError as error:
        raise UsageError(f"{path} is not a valid report: it has no {str(error)[:200]}", HINT) from error
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise UsageError(f"{path} is not a valid report: {str(error)[:200] or type(error).__name__}", HINT) from error


def joined(reports: Sequence[ProbeReport], names: Sequence[Path]) -> ProbeReport:
    """Merge several reports into one; UsageError if they don't fit together."""
    first, releases = reports[0], dict[str, ReleaseReport]()
    if len(reports) == 1:
        return first
    for report, name in zip(reports, names, strict=True):
        if (report.level, report.clauses) != (first.level, first.clauses):
            raise UsageError(
                f"{name} and {names[0]} tested different levels or clauses", "merge only reports with the same ones"
            )
        for release in report.releases:
            if release.release in releases:
                raise UsageError(f"{name} contains {release.release} again", "pass each release only once")
            releases[release.release] = release
    fail_on = max((r.fail_on for r in reports), key=list(FailOn).index)
    interrupted = any(r.interrupted for r in reports)
    listed = tuple(releases.values())
    engines = {release.engine for release in listed}
    skipped = {s.engine: s for r in reports for s in r.skipped or () if s.engine not in engines}
    return msgspec.structs.replace(
        first,
        skipped=tuple(skipped.values()) or msgspec.UNSET,
        started_at=min((r.started_at for r in reports), key=datetime.fromisoformat),
        fail_on=fail_on,
        interrupted=interrupted,
        seconds=sum(r.seconds for r in reports),
        peak_usage=msgspec.UNSET,
        engine_seconds=sum(r.engine_seconds for r in reports),
        releases=listed,
        exit_code=code_of(listed, fail_on, interrupted=interrupted),
    )


def contradiction(report: ProbeReport) -> str | None:
    """Find what the structs can't check: a wrong verdict or exit code, a time without a time zone."""
    if datetime.fromisoformat(report.started_at).tzinfo is None:
        return "started_at has no time zone"
    for release in report.releases:
        failed = [clause.id for clause in release.clauses if (clause.severity, clause.result) == BREAKS]
        if release.verdict is None and not report.clauses:
            return f"{release.release} has no verdict although all clauses were tested"
        if failed and release.verdict not in (Verdict.BROKEN, None):
            return f"{release.release} has the verdict {release.verdict} although {failed[0]} failed"
    code = code_of(report.releases, report.fail_on, interrupted=report.interrupted)
    if report.exit_code != code:
        return f"its exit code is {report.exit_code}, but its releases require {code}"
    names = {release.release for release in report.releases}
    return None if len(names) == len(report.releases) else "a release occurs in it twice"


def _report(path: Path) -> ProbeReport:
    document = _json(path)
    try:
        version_of(document["schema"], _SCHEMA)
    except NewerFormatError as newer:
        hint = "render it with that turngate, or run the probe again"
        raise UsageError(f"can't read the report {path}: {newer}", hint) from newer
    report: ProbeReport = convert(document, ProbeReport, dec_hook=decode_hook)
    return report


def _json(path: Path) -> Any:
    return json.loads(_bounded(path).read_bytes(), parse_constant=_no_number)


def _bounded(path: Path) -> Path:
    if path.stat().st_size > MOST_BYTES:
        raise UsageError(f"{path} is too large to be a report", HINT)
    return path


def _no_number(name: str) -> Never:
    raise ValueError(f"{name} is not JSON")
