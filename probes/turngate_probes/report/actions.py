"""What an orchestrator must do: one line for each known caveat or change."""

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from turngate.contract.verdict import Text
from turngate_probes.report.structs import ReleaseReport


class Action(Struct, frozen=True, forbid_unknown_fields=True):
    """One thing that an orchestrator must do.

    kind: Why: a known caveat, or a change from the older release of a gate.
    about: The clause, or what else changed.
    releases: The releases that need it.
    new: Whether the older release of a gate does not need it.
    """

    kind: Literal["caveat", "change"]
    about: Text
    text: Text
    releases: tuple[Text, ...]
    new: bool = False

    @property
    def title(self) -> str:
        """The kind of the action, and what it is about."""
        kind = self.kind if self.kind == "change" else f"{'new' if self.new else 'known'} caveat"
        return f"{kind}: {self.about}"


def known_caveats(releases: Iterable[ReleaseReport]) -> tuple[Action, ...]:
    """Return what to do about the known caveats of releases, once for a caveat that several releases share."""
    having: dict[tuple[str, str], list[str]] = {}
    for release in releases:
        for clause in release.clauses:
            if clause.action:
                having.setdefault((clause.id, clause.action), []).append(release.release)
    return tuple(Action("caveat", clause, text, tuple(names)) for (clause, text), names in having.items())
