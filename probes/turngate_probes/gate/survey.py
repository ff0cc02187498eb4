"""What a release showed of its surface, read from the journal of its probe."""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from turngate_probes.journal.journal import Event

EXIT = "exit"


class Survey(Struct, frozen=True):
    """Names on each help page that was asked for, be it empty; kinds of records and their keys of each ended turn.

    A key is written as `kind: path`. Turns that did not end by themselves are left out.
    """

    names: dict[str, list[str]]
    kinds: dict[str, list[str]]
    keys: dict[str, list[str]]


class Side(Struct, frozen=True):
    """One of the two releases: what the report says of it, and what it showed."""

    release: Mapping[str, Any]
    survey: Survey


def survey(events: Iterable[Event], release: str) -> Survey:
    """Read what the events of a release show."""
    mine = [each for each in events if each.get("release") == release]
    pages = [each for each in mine if each["event"] == "page" and "names" in each]
    turns = [each for each in mine if each["event"] == "turn" and each["ended"] == EXIT and "kinds" in each]
    return Survey(
        names={each["step"]: each["names"] for each in pages},
        kinds={_name(each): each["kinds"] for each in turns},
        keys={_name(each): each["paths"] for each in turns},
    )


def shared(old: Mapping[str, list[str]], new: Mapping[str, list[str]]) -> tuple[set[str], set[str]]:
    """Join what both have of the same turns: of each side all that stands in any of them."""
    both = old.keys() & new.keys()
    return {each for name in both for each in old[name]}, {each for name in both for each in new[name]}


def _name(turn: Event) -> str:
    return f"{turn['case']}/{turn['step']}"
