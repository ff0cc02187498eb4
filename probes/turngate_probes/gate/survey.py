"""What a release showed of its surface, read from the journal of its probe."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from turngate_probes.journal.events import Event, PageEvent, TurnEvent

EXIT = "exit"


class ReleaseSurface(Struct, frozen=True):
    """Names on each help page that was asked for, even if empty; kinds of records and their keys of each ended turn.

    A key is written as `kind: path`. Turns that did not end by themselves are left out.
    """

    names: Mapping[str, Sequence[str]]
    kinds: Mapping[str, Sequence[str]]
    keys: Mapping[str, Sequence[str]]


def survey(events: Iterable[Event], release: str) -> ReleaseSurface:
    """Read what the events of a release show."""
    mine = [event for event in events if isinstance(event, PageEvent | TurnEvent) and event.release == release]
    turns = [event for event in mine if isinstance(event, TurnEvent) and event.ended == EXIT]
    return ReleaseSurface(
        {page.step: page.names for page in mine if isinstance(page, PageEvent) and page.names is not None},
        {turn.name: turn.kinds for turn in turns if turn.kinds is not None},
        {turn.name: turn.paths for turn in turns if turn.paths is not None},
    )


def shared(old: Mapping[str, Sequence[str]], new: Mapping[str, Sequence[str]]) -> tuple[set[str], set[str]]:
    """Join what both have of the same turns: of each side all that stands in any of them."""
    both = old.keys() & new.keys()
    return {word for name in both for word in old[name]}, {word for name in both for word in new[name]}
