"""What a release showed of its surface, read from the journal of its probe."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from turngate.process import Ended
from turngate_probes.journal.events import Event, PageEvent, TurnEvent
from turngate_probes.report.structs import ReleaseReport


class Survey(Struct, frozen=True):
    """Names on each help page that was asked for, be it empty; kinds of records and their keys of each ended turn.

    A key is written as `kind: path`. Turns that did not end by themselves are left out.
    """

    names: dict[str, tuple[str, ...]]
    kinds: dict[str, tuple[str, ...]]
    keys: dict[str, tuple[str, ...]]


class Side(Struct, frozen=True):
    """One of the two releases: what the report says of it, and what it showed."""

    release: ReleaseReport
    survey: Survey


def survey(events: Sequence[Event], release: str) -> Survey:
    """Read what the events of a release show."""
    turns = [event for event in events if isinstance(event, TurnEvent) and event.release == release]
    read = [turn for turn in turns if turn.ended is Ended.EXIT and turn.kinds is not None]
    pages = [event for event in events if isinstance(event, PageEvent) and event.release == release]
    return Survey(
        names={page.step: page.names for page in pages if page.names is not None},
        kinds={turn.name: turn.kinds or () for turn in read},
        keys={turn.name: turn.paths or () for turn in read},
    )


def shared(old: Mapping[str, tuple[str, ...]], new: Mapping[str, tuple[str, ...]]) -> tuple[set[str], set[str]]:
    """Join what both have of the same turns: of each side all that stands in any of them."""
    both = old.keys() & new.keys()
    return {each for name in both for each in old[name]}, {each for name in both for each in new[name]}
