"""Expected breaches: a file that excuses rules in scenarios, until an orchestrator keeps them."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from turngate import EnvironmentFailed
from turngate.contract import load
from turngate.contract.values import Release, Text
from turngate.contract.versions import Range
from turngate.decoding import convert
from turngate.errors import did_you_mean
from turngate_probes.conform.catalogue import rules, scenarios
from turngate_probes.conform.judge import Breach

BASELINE_SCHEMA = "conform-baseline"


class ExpectedBreach(Struct, frozen=True, forbid_unknown_fields=True):
    """An entry has rule and reason, and may have engine, scenario, since and until.

    reason: say why the orchestrator breaks the rule
    engine: absent: with every engine
    scenario: absent: in every scenario
    since: the first release of the engine with which it is expected
    until: the first release of the engine with which it is no longer expected
    """

    rule: Text
    reason: Text
    engine: Text | None = None
    scenario: Text | None = None
    since: Release | None = None
    until: Release | None = None

    def covers(self, engine: str, version: str, scenario: str, breach: Breach) -> bool:
        """Return whether the entry excuses a breach."""
        here = self.engine in (None, engine) and self.scenario in (None, scenario) and self.rule == breach.rule
        return here and Range(self.since, self.until).covers(version)

    @property
    def name(self) -> str:
        """The entry in a few words."""
        return " ".join(filter(None, (self.rule, self.engine, self.scenario)))


def read(path: Path) -> tuple[ExpectedBreach, ...]:
    """Read a baseline; ContractError if it is wrong, EnvironmentFailed if it can't be read."""
    try:
        with path.open("rb") as file:
            text = file.read(load.MOST_BYTES + 1).decode("utf-8", "surrogateescape")
    except OSError as error:
        raise EnvironmentFailed(f"can't read the baseline {path}: {error.strerror}", "see --baseline") from error
    document = load.parse(text, str(path))
    wrong = next(load.schema_errors(document, BASELINE_SCHEMA), None)
    if wrong:
        raise wrong
    entries = convert(document.data or (), tuple[ExpectedBreach, ...])
    for i, entry in enumerate(entries):
        for key, value, known in (("rule", entry.rule, rules()), ("scenario", entry.scenario, scenarios())):
            if value is not None and value not in known:
                hint = did_you_mean(value, known, "see turngate conform --list")
                raise document.error((i, key), f"unknown {key} {value!r}", hint)
    return entries


def stale(entries: Sequence[ExpectedBreach], used: Iterable[ExpectedBreach]) -> tuple[str, ...]:
    """Return the names of the entries that excused nothing."""
    needed = set(used)
    return tuple(entry.name for entry in entries if entry not in needed)
