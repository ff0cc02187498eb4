"""Reports as files: the suffix of a file's name says its format."""

from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path

from turngate.errors import EnvironmentFailed
from turngate.files import write_atomically
from turngate_probes.report.output import checked
from turngate_probes.report.structs import ProbeReport

# by module and function, since a run without --report needs none of them
FORMATS = {
    ".json": "turngate_probes.report.output:json_text",
    ".xml": "turngate_probes.report.junit:junit",
    ".sarif": "turngate_probes.report.sarif:sarif",
    ".md": "turngate_probes.report.markdown:markdown",
    ".html": "turngate_probes.report.page:page",
}


def write_reports(report: ProbeReport, paths: Iterable[Path]) -> None:
    """Write the report to each file in the format of its suffix, each whole or not at all.

    Raises ValueError if the report breaks its schema or a suffix is unknown, EnvironmentFailed if a file can't be
    written.
    """
    listed = list(paths)
    if listed:
        checked(report)
    for path in listed:
        text = _renderer(path)(report)
        try:
            write_atomically(path.resolve(), text)
        except OSError as error:
            raise EnvironmentFailed(f"the report {path} can't be written: {error.strerror}") from error


def wrong_suffix(path: Path) -> str | None:
    """Return what is wrong with the name of a report; None if its suffix is of a format."""
    if path.suffix.lower() in FORMATS:
        return None
    return f"{str(path)!r} ends in no known format; there are {', '.join(FORMATS)}"


def _renderer(path: Path) -> Callable[[ProbeReport], str]:
    wrong = wrong_suffix(path)
    if wrong:
        raise ValueError(wrong)
    module, _, function = FORMATS[path.suffix.lower()].partition(":")
    found: Callable[[ProbeReport], str] = getattr(import_module(module), function)
    return found
