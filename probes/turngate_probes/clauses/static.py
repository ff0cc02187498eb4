"""Checks of what plain commands print."""

import re

from turngate.contract import versions
from turngate.contract.verdict import Finding
from turngate.process import Ended
from turngate_probes.clauses.registry import check, failed, passed
from turngate_probes.harness.observations import Observations


@check("version.readable", "static")
def version_readable(seen: Observations) -> Finding:
    """The version query exits with 0 and its whole output has the contract's form."""
    page, query = seen.page("static/version"), seen.contract.version_query
    printed = page.text(query.stream).strip()
    if page.exit_code != 0 or page.ended is not Ended.EXIT:
        return failed(f"the version query ended with {page.exit_code}: {printed[:200]!r}")
    said = re.fullmatch(query.pattern, printed)
    if not said:
        return failed(f"{printed[:200]!r} does not match {query.pattern}")
    if not _is_version(said["version"]):
        return failed(f"{said['version'][:200]!r} is no semantic version, so no claim can be chosen by it")
    wanted = seen.contract.version
    if wanted is not None and said["version"] != wanted:
        return failed(f"it says {said['version']}, but is {wanted}")
    return passed(f"says {said['version']}")


@check("help.surface", "static")
def help_surface(seen: Observations) -> Finding:
    """Each help page names, as whole words, all that the contract uses."""
    absent: list[str] = []
    for i, wanted in enumerate(seen.contract.help.pages):
        page = seen.page(f"static/help-{i + 1}")
        absent += [f"{name} ({' '.join(wanted.argv)})" for name in wanted.missing(page.text(wanted.stream))]
    count = sum(len(page.names) for page in seen.contract.help.pages)
    return failed("not named: " + ", ".join(absent)) if absent else passed(f"{count} names found")


def _is_version(text: str) -> bool:
    try:
        versions.parse(text)
    except ValueError:
        return False
    return True
