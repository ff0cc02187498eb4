"""Chooses clauses by id, and releases by version expressions."""

import bisect
import difflib
import re
from collections.abc import Callable, Iterable, Sequence
from operator import eq, ge, gt, le, lt

from semver import Version

from turngate import NotFoundError, UsageError
from turngate.contract import load
from turngate.contract.clauses import Level
from turngate_probes.clauses.checks import LEVELS

LATEST = re.compile(r"latest(?::(?P<count>[1-9]\d*))?")
COMPARATOR = re.compile(r"(?P<sign>>=|<=|>|<|=)\s*(?P<version>[^\s,<>=]+)")
SIGNS: dict[str, Callable[[Version, Version], bool]] = {">=": ge, "<=": le, ">": gt, "<": lt, "=": eq}
HINT = "write all, latest:20, 0.147.0,0.169.0 or '>=0.100 <0.150'"


def known_clauses(clause_ids: Iterable[str], level: str) -> tuple[str, ...]:
    """Return these clauses without duplicates; NotFoundError suggests others for one that is not at the level."""
    catalogue = load.catalogue()
    at_level = [clause.id for clause in catalogue.at_level(*LEVELS[level])]
    for name in clause_ids:
        if name not in at_level:
            hint = f"its level is {catalogue[name].level}" if name in catalogue else similar(name, [*catalogue])
            raise NotFoundError(f"unknown clause {name!r} at level {level}", hint)
    return tuple(dict.fromkeys(clause_ids))


def similar(name: str, known: Sequence[str]) -> str:
    """Return a hint with the ids that are most like a mistyped one or a part of one; else, where all are listed."""
    near = [one for one in known if name in one][:3] or difflib.get_close_matches(name.lower(), known, 3, 0.5)
    return f"similar: {', '.join(near)}" if near else "`turngate explain` lists all of them"


def level_of(clause_id: str) -> Level:
    """Return the lowest level of `probe` that tests a clause."""
    level = load.catalogue()[clause_id].level if clause_id in load.catalogue() else "hermetic"
    return level if level in ("static", "long") else "hermetic"


def chosen(spec: str, published: Iterable[str]) -> tuple[str, ...]:
    """Choose versions as `spec` says, oldest first: `all`, `latest:N`, comparators that all must hold, or a list.

    Only a list chooses pre-releases; it may also name unpublished versions. UsageError if `spec` can't be read,
    or nothing matches.
    """
    spec = spec.strip()
    listed = _listed(spec)
    if listed is not None:
        return listed
    releases = _releases(published)
    if latest := LATEST.fullmatch(spec):
        chosen_ones = releases[-int(latest["count"] or 1) :]
    else:
        tests = [] if spec == "all" else _tests(spec)
        chosen_ones = [version for version in releases if all(SIGNS[sign](version, bound) for sign, bound in tests)]
    if not chosen_ones:
        ends = f"published releases: {releases[0]} to {releases[-1]}" if releases else "nothing is published"
        raise NotFoundError(f"no published release matches {spec!r}", ends)
    return tuple(map(str, chosen_ones))


def nearest(version: str, published: Iterable[str]) -> tuple[str, ...]:
    """Return the published releases just below and above `version`, the newest two if it is not a version.

    Pre-releases are left out: builds for single platforms are published as such.
    """
    releases = _releases(published)
    asked = _parsed(version)
    place = bisect.bisect(releases, asked) if asked else len(releases) - 1
    return tuple(map(str, releases[max(0, place - 1) : place + 1]))


def parse_shard(text: str) -> tuple[int, int]:
    """Read `i/n`; UsageError if it is invalid."""
    numbers = re.fullmatch(r"(\d+)/(\d+)", text)
    if not numbers or not 1 <= int(numbers[1]) <= int(numbers[2]):
        raise UsageError(f"{text!r} is not a shard; write 1/3", "see --shard")
    return int(numbers[1]), int(numbers[2])


def _listed(spec: str) -> tuple[str, ...] | None:
    """Read a list of exact versions, oldest first, without duplicates; None if `spec` is not a list."""
    words = [word.strip() for word in spec.split(",")]
    if not all(Version.is_valid(word) for word in words):
        return None
    return tuple(map(str, sorted(set(map(Version.parse, words)))))


def _tests(spec: str) -> list[tuple[str, Version]]:
    if COMPARATOR.sub("", spec).strip(" ,"):
        raise UsageError(f"{spec!r} does not select versions", HINT)
    written = [(comparator["sign"], _parsed(comparator["version"])) for comparator in COMPARATOR.finditer(spec)]
    tests = [(sign, version) for sign, version in written if version]
    if not tests or len(tests) != len(written):
        raise UsageError(f"{spec!r} does not select versions", HINT)
    return tests


def exact_version(text: str) -> str | None:
    """Return a version with all three numbers; None if the text is not a version."""
    version = _parsed(text)
    return str(version) if version else None


def _parsed(text: str) -> Version | None:
    try:
        return Version.parse(text, optional_minor_and_patch=True)
    except ValueError:
        return None


def _releases(published: Iterable[str]) -> list[Version]:
    return sorted(version for version in map(_parsed, published) if version and not version.prerelease)
