"""Checks of the output of plain commands."""

import re

from turngate import Ended
from turngate.contract import versions
from turngate.contract.verdict import Finding
from turngate_probes.clauses.registry import check, fail_if, passed
from turngate_probes.harness.observations import Observations


@check("version.readable", "static")
def version_readable(seen: Observations) -> Finding:
    """The version query exits with 0, and its whole output matches the contract's pattern."""
    page, query = seen.page("static/version"), seen.contract.version_query
    printed = page.printed.on(query.stream).strip()
    misplaced = page.printed.misplaced(query.stream, re.compile(query.pattern).fullmatch)
    went_well = page.exit_code == 0 and page.ended is Ended.EXIT
    fail_if(not went_well, f"the version query exited with {page.exit_code}: {printed[:200]!r}")
    said = re.fullmatch(query.pattern, printed)
    fail_if(misplaced, misplaced)
    fail_if(not said, f"{printed[:200]!r} does not match {query.pattern}")
    version, wanted = said["version"] if said else "", seen.contract.version
    unusable = f"{version[:200]!r} is not a semantic version, so no contract claims can be selected for it"
    fail_if(not _is_version(version), unusable)
    fail_if(wanted is not None and version != wanted, f"it reports {version}, but is {wanted}")
    return passed(f"reports {version}")


@check("help.surface", "static")
def help_surface(seen: Observations) -> Finding:
    """Each help page contains, as whole words, every name that the contract uses."""
    absent: list[str] = []
    for i, wanted in enumerate(seen.contract.help.pages):
        page, command = seen.page(f"static/help-{i + 1}"), " ".join(wanted.argv)
        fail_if(page.ended is not Ended.EXIT, f"{command} did not end by itself, so its text is not whole")
        misplaced = page.printed.misplaced(wanted.stream, wanted.is_complete)
        fail_if(misplaced, f"{command}: {misplaced}")
        absent += [f"{name} ({command})" for name in wanted.missing(page.printed.on(wanted.stream))]
    fail_if(absent, "missing: " + ", ".join(absent))
    return passed(f"{sum(len(page.names) for page in seen.contract.help.pages)} names found")


def _is_version(text: str) -> bool:
    try:
        versions.parse(text)
    except ValueError:
        return False
    return True
