"""What is known of an engine's published releases without running any: verdicts, clauses, and what each one changed.

The package has one file per engine, `histories/<engine>.jsonl`. Its first line describes the engine, and every other
line one release, oldest first, by its difference from the release before it. A change is only between things that were
observed in both releases: a section of facts that a release lacks says nothing.

Reading needs no network and runs nothing.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from functools import cache, partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, TypeVar

from msgspec import Struct, field, structs

from turngate.contract.clauses import FIRST_SET, Result
from turngate.contract.verdict import Verdict, weighed
from turngate.contract.versions import parse
from turngate.decoding import convert, decode
from turngate.errors import ContractError, NotFoundError, UsageError, did_you_mean
from turngate.files import read_regular
from turngate.formats import version_of

if TYPE_CHECKING:
    from semver import Version

__all__ = ["Change", "History", "Kind", "KnownRelease", "KnownResult", "engines", "load"]

Schema: TypeAlias = Literal["turngate.history/1"]
SCHEMA: Final[Schema] = "turngate.history/1"
STUB = "stub"
# the value of an option that no help page shows any more, but that is accepted
HIDDEN = "not on the help page"
# the value of a tool that a request only names, for the model to find by a search
SEARCHED = "only by a search"
# the value of a command that no help page shows
HIDDEN_COMMAND = "hidden"
# where lists of a release come from
FROM_LIST, FROM_TYPES = "any list", "type file"
_FOLDER = Path(__file__).with_name("histories")
_SEPARATOR = "/"
_BY_CHANCE = 4  # so many changes, such as two disappearances and two returns, are no decisions of a vendor
_T = TypeVar("_T")


class KnownResult(Struct, frozen=True, array_like=True):
    """The result of a clause, its symptoms, and for a failure what was observed."""

    result: Result
    symptoms: tuple[str, ...] = ()
    detail: str = ""


class Kind(StrEnum):
    """What a fact is about.

    The facts of a record are `kind` for itself, and `kind: key.path` for its keys. An engine whose records have no kind
    has `key` instead, with `key.path`. The facts of a command are `command` for itself, and `command: --option` for
    its options, without those of the command above it. Those of a protocol are `request thread/start` for a message and
    `request thread/start: cwd` for its fields. Those of the file of a session are as those of records.
    """

    OPTION = "option"
    RECORD = "record"
    KEY = "key"
    EXIT_CODE = "exit code"
    TOOL = "tool"
    TOOL_CALL = "tool call"
    REQUEST = "request"
    HEADER = "header"
    HOST = "host"
    COMMAND = "command"
    VARIABLE = "variable"
    FEATURE = "feature"
    MODEL = "model"
    PROTOCOL = "protocol"
    DEFAULT_MODEL = "default model"
    SESSION = "session"


# what a release lists, without a turn
LISTED = frozenset({Kind.COMMAND, Kind.VARIABLE, Kind.FEATURE, Kind.MODEL, Kind.PROTOCOL})
# what an engine says of itself depends on nothing but the release
_FIXED = frozenset({Kind.OPTION, Kind.TOOL, Kind.DEFAULT_MODEL, *LISTED})
# what depends on the model too
OF_MODEL = frozenset({Kind.TOOL, Kind.TOOL_CALL, Kind.REQUEST})


class _Release(Struct, frozen=True, kw_only=True):
    version: str
    integrity: str = ""
    verdict: Verdict | None = None
    clause_set: str = FIRST_SET
    level: str = "hermetic"
    profile: str | None = None
    why: str = ""
    measured: str = ""
    turngate: str = ""
    contract: str = ""
    cpu_seconds: float = 0.0
    model: str = STUB


class KnownRelease(_Release, frozen=True, kw_only=True):
    """What is known of one release.

    integrity: The checksum of the engine's own package, in the registry's notation; empty: unknown.
    verdict: null: only selected clauses were tested.
    clause_set: The set of clauses that the verdict was given by, such as `2026-11`; it says nothing about newer ones.
    level: The level of the test: hermetic, or long, which includes the clauses about long sessions.
    profile: How an interactive run waits for its user: `resumable` or `sticky_process`; null: not tested.
    why: Why the release is broken or could not be tested; empty otherwise.
    measured: The date of the test; empty: before dates were kept.
    turngate: The version of turngate that tested it, and `contract` that of the contract; empty: unknown.
    cpu_seconds: What the engine needed for the test.
    model: The model of its turns: the one that it takes by itself, or one that the turns asked for. `stub` stands for a
        name that no release knows, with which all releases were tested before 2026-11-27.
    clauses: The result of each clause that was tested, by id.
    facts: What was observed, in sections named `kind/place`: in `option/codex exec --help` the value that each option
        takes, in `record/first turn` the type of each key. A value is empty where there is nothing but the name, and
        `not on the help page` where the page stopped to show an option that the release accepts, `hidden` for a command
        that only a completion script names, or `only by a search` for a tool that the model must search for.
    """

    clauses: Mapping[str, KnownResult] = field(default_factory=dict)
    facts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Name the release and its verdict; its facts have thousands of words."""
        return f"KnownRelease({self.version!r}, verdict={self.verdict and self.verdict.value!r})"

    @property
    def tested(self) -> bool:
        """Whether all clauses were tested; a release that can't be installed here was not."""
        return self.verdict not in (None, Verdict.UNANSWERED)

    @property
    def caveats(self) -> tuple[tuple[str, str], ...]:
        """The declared deviations that occurred, as clause and symptom."""
        deviating = {name: known for name, known in self.clauses.items() if known.result is Result.DEVIATES}
        return tuple((name, symptom) for name, known in sorted(deviating.items()) for symptom in known.symptoms)


class Change(Struct, frozen=True, kw_only=True):
    """A difference between a release and the one before it that was tested for the same.

    release: The release that has it.
    since: The release before it that was tested for this. If others lie between the two, one of them may have
        brought it.
    kind: A kind of fact, `clause`, or `verdict`.
    subject: What differs, such as `--model`, `item.completed: item.text` or the id of a clause.
    before: How it was; null: absent. Of a clause, the result and its symptoms, such as `deviates: fresh-session`.
    after: How it is; null: absent.
    where: Where it was observed, such as `first turn`.
    """

    release: str
    since: str
    kind: str
    subject: str
    before: str | None
    after: str | None
    where: tuple[str, ...] = ()


def by_since(changes: Iterable[Change]) -> Iterator[tuple[str, tuple[Change, ...]]]:
    """Yield the changes of one release by the release with which they are compared, the nearest first."""
    ordered = sorted(changes, key=lambda change: parse(change.since), reverse=True)
    for since, group in groupby(ordered, key=lambda change: change.since):
        yield since, tuple(group)


class History(Struct, frozen=True, kw_only=True):
    """The history of an engine. Its methods raise UsageError for a text that is no version.

    machine: Where the releases were tested.
    published: The day on which the registry got each stable release, such as `2026-11-24`, oldest first; null: unknown.
    releases: What is known, oldest first; a published release that is not among them was never tested.
    """

    engine: str
    machine: str
    published: Mapping[str, str | None]
    releases: tuple[KnownRelease, ...]

    def __repr__(self) -> str:
        """Name the engine, and say how many releases are known."""
        return f"History({self.engine!r}, {len(self.releases)} releases)"

    @property
    def newest(self) -> str:
        """The newest version that is known, tested or not."""
        return max((*self.published, *(release.version for release in self.releases)), key=parse)

    def find(self, version: str) -> KnownRelease | None:
        """Return a release by its exact version; None if it is unknown."""
        return next((release for release in self.releases if release.version == version), None)

    def is_release(self, version: str) -> bool | None:
        """Whether a release has this version; None: unknown, since it is a pre-release or newer than all others."""
        if version in self.published or self.find(version):
            return True
        asked = _asked(version)
        return None if asked.prerelease or asked > parse(self.newest) else False

    def nearest(self, version: str) -> tuple[KnownRelease | None, KnownRelease | None]:
        """Return the nearest tested releases below and above a version."""
        at, tested = _asked(version), [release for release in self.releases if release.tested]
        below = [release for release in tested if parse(release.version) < at]
        above = [release for release in tested if parse(release.version) > at]
        return below[-1] if below else None, above[0] if above else None

    def newest_safe(self, above: str | None = None) -> KnownRelease | None:
        """Return the newest compatible release, if it is newer than `above`.

        Its `clause_set` says by which clauses it is compatible.
        """
        safe = [release for release in self.releases if release.verdict is Verdict.COMPATIBLE]
        least = above and _asked(above)
        newer = [release for release in safe if least is None or parse(release.version) > least]
        return newer[-1] if newer else None

    def changes(self, since: str | None = None, until: str | None = None) -> tuple[Change, ...]:
        """Return what changed after `since` up to and including `until`, oldest first; None: as far as is known.

        What `since` was not tested for is compared with what the releases before it showed last. Releases that were
        tested by different sets of clauses are compared by the clauses of the older set. What comes and goes again
        and again depends on chance, and is left out. Of a release that was tested for selected clauses only, what it
        showed counts, without a verdict.
        """
        low, high = since and _asked(since), until and _asked(until)
        shown, found = _Before(self._by_chance()), list[Change]()
        for release in self.releases:
            at = parse(release.version)
            if high is not None and at > high:
                break
            if release.tested or (release.verdict is None and release.facts):
                if low is None or at > low:
                    found += shown.changes_of(release)
                shown.add(release)
        return tuple(found)

    def _by_chance(self) -> frozenset[tuple[str, str]]:
        """Return the facts of turns and the caveats, by section and name, that changed too often."""
        latest, changes = dict[str, Mapping[str, str]](), Counter[tuple[str, str]]()
        for release in self.releases:
            caveats = {_caveats(name): dict.fromkeys(known.symptoms, "") for name, known in _judged(release)}
            for section, facts in {**release.facts, **caveats}.items():
                before = latest.get(section, facts)
                if before != facts and section.partition(_SEPARATOR)[0] not in _FIXED:
                    changed = {name for name in before.keys() | facts.keys() if before.get(name) != facts.get(name)}
                    changes.update((section, name) for name in changed)
                latest[section] = facts
        return frozenset(fact for fact, times in changes.items() if times >= _BY_CHANCE)

    def untested(self, since: str, until: str) -> tuple[str, ...]:
        """Return the published releases between two, without them, that were not tested, or not completely."""
        tested = {release.version for release in self.releases if release.tested and release.facts}
        low, high = _asked(since), _asked(until)
        between = (version for version in self.published if low < parse(version) < high)
        return tuple(version for version in between if version not in tested)


def engines() -> tuple[str, ...]:
    """Return the engines that have a history."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.jsonl")))


def load(engine: str) -> History:
    """Return the history of an engine; NotFoundError if there is none. It is read once.

    >>> from turngate import history
    >>> release = history.load("codex").find("0.169.0")
    >>> release.verdict, release.profile
    (<Verdict.COMPATIBLE: 'compatible'>, 'resumable')
    """
    if engine not in engines():
        hint = did_you_mean(engine.partition("@")[0], engines(), f"it has {', '.join(engines())}")
        raise NotFoundError(f"turngate has no history of {engine}", hint)
    return _load(engine)


def _asked(version: str) -> "Version":
    try:
        return parse(version)
    except ValueError as wrong:
        raise UsageError(f"{version!r} is not a version", "write it as 1.2.3") from wrong


@cache
def _load(engine: str) -> History:
    return read(_FOLDER / f"{engine}.jsonl")


class _Before:
    """What the releases before one showed last: a release that was not tested for something says nothing about it."""

    def __init__(self, by_chance: frozenset[tuple[str, str]]) -> None:
        self._by_chance = by_chance
        self._release: KnownRelease | None = None
        self._clauses = dict[str, tuple[KnownRelease, KnownResult]]()
        self._facts = dict[tuple[str, str], tuple[KnownRelease, Mapping[str, str]]]()

    def add(self, release: KnownRelease) -> None:
        """Add the next release."""
        self._release = release if release.tested else self._release
        self._clauses |= {name: (release, self._lasting(name, known)) for name, known in _judged(release)}
        for section, facts in release.facts.items():
            key = section, _model_of(release, section)
            earlier = self._facts[key][1] if key in self._facts else {}
            # only the release that hid an option was tried, so the next ones say nothing of it
            hidden = {name: value for name, value in earlier.items() if value == HIDDEN and name not in facts}
            self._facts[key] = (release, {**facts, **hidden})

    def changes_of(self, release: KnownRelease) -> Iterator[Change]:
        """Yield the differences of the next release."""
        change = partial(_change, release)
        if (earlier_release := self._release) and release.tested:
            both = min(earlier_release.clause_set, release.clause_set)
            long = earlier_release.level == release.level == "long"
            before = _verdict_by(earlier_release, both, release, long=long)
            after = _verdict_by(release, both, earlier_release, long=long)
            if before != after:
                yield change(earlier_release.version, "verdict", release.version, before, after)
        for name, shown in _judged(release):
            known = self._lasting(name, shown)
            since, earlier = self._clauses.get(name, (release, known))
            if (earlier.result, earlier.symptoms) == (known.result, known.symptoms):
                continue
            if not (_passed_less(since, release, name) or _passed_less(release, since, name)):
                yield change(since.version, "clause", name, result_text(earlier), result_text(known))
        yield from self._facts_of(release)

    def _facts_of(self, release: KnownRelease) -> Iterator[Change]:
        """Yield the differing facts of the next release, each with all places where it was observed."""
        places = dict[Change, list[str]]()
        for section, since, difference in self._changed_facts(release):
            kind, _, place = section.partition(_SEPARATOR)
            places.setdefault(_change(release, since, kind, *difference), []).append(place)
        for found, where in sorted(places.items(), key=lambda item: (item[0].kind, item[0].subject)):
            yield structs.replace(found, where=tuple(sorted(where)))

    def _changed_facts(self, release: KnownRelease) -> Iterator[tuple[str, str, tuple[str, str | None, str | None]]]:
        """Yield each differing fact, with its section and the release before.

        Those under another model say nothing, unless both are what the releases take by themselves. Nor do the hosts of
        other turns.
        """
        for section in release.facts:
            key = section, _model_of(release, section)
            if key not in self._facts:
                continue
            earlier, facts = self._facts[key]
            kind = section.partition(_SEPARATOR)[0]
            if kind == Kind.HOST and (_takes_more(earlier, release) or _takes_more(release, earlier)):
                continue
            for difference in differing(kind, facts, release.facts[section]):
                if (section, difference[0]) not in self._by_chance:
                    yield section, earlier.version, difference

    def _lasting(self, name: str, known: KnownResult) -> KnownResult:
        """Return the result of a clause without caveats that come and go by chance."""
        if known.result is not Result.DEVIATES or not known.symptoms:
            return known
        symptoms = tuple(each for each in known.symptoms if (_caveats(name), each) not in self._by_chance)
        return structs.replace(known, symptoms=symptoms) if symptoms else KnownResult(Result.PASS)


def _change(
    release: KnownRelease, since: str, kind: str, subject: str, before: str | None, after: str | None
) -> Change:
    return Change(release=release.version, since=since, kind=kind, subject=subject, before=before, after=after)


def _model_of(release: KnownRelease, section: str) -> str:
    """Return the model that a section of facts depends on; empty: none, or the one that the release takes by itself."""
    kinds = {name.partition(_SEPARATOR)[0] for name in release.facts}
    is_free = section.partition(_SEPARATOR)[0] not in OF_MODEL or Kind.DEFAULT_MODEL in kinds
    return "" if is_free else release.model


def _verdict_by(release: KnownRelease, clause_set: str, other: KnownRelease, *, long: bool) -> Verdict | None:
    """Return the verdict of a release by the clauses that it and another one were judged by.

    They are its own, or those of an earlier set, or without those of level long.
    """
    is_whole = release.clause_set <= clause_set and (long or release.level != "long")
    if is_whole or not release.clauses or release.verdict is None:
        return release.verdict
    from turngate.contract.load import catalogue  # noqa: PLC0415 - slow, and only needed where sets differ

    of_set = catalogue().of_set(clause_set)
    counted = {name: clause.severity for name, clause in of_set.items() if long or clause.level != "long"}
    return weighed(
        (counted[name], Result.PASS if _passed_less(other, release, name) else known.result)
        for name, known in release.clauses.items()
        if name in counted
    )


def _passed_less(release: KnownRelease, other: KnownRelease, clause: str) -> bool:
    """Whether a release passed a clause about every turn, but without all turns that another one was tested with."""
    if not _takes_more(other, release) or clause not in release.clauses:
        return False
    from turngate.contract.load import catalogue  # noqa: PLC0415 - as above

    known = catalogue().get(clause)
    return known is not None and known.every_turn and release.clauses[clause].result is Result.PASS


def _takes_more(release: KnownRelease, other: KnownRelease) -> bool:
    """Whether a release was tested with turns that another one was not tested with."""
    return release.clause_set > other.clause_set or (release.level == "long" and other.level != "long")


def _caveats(clause: str) -> str:
    """Return the section of the caveats of a clause."""
    return f"caveat{_SEPARATOR}{clause}"


def _judged(release: KnownRelease) -> Iterator[tuple[str, KnownResult]]:
    """Yield the clauses with a result: one that was not run says nothing."""
    yield from ((name, known) for name, known in release.clauses.items() if known.result is not Result.NOT_RUN)


def result_text(known: KnownResult) -> str:
    """Return a result with its symptoms, such as `deviates: fresh-session`."""
    return f"{known.result}: {', '.join(known.symptoms)}" if known.symptoms else str(known.result)


def differing(
    kind: str, was: Mapping[str, str], now: Mapping[str, str]
) -> Iterator[tuple[str, str | None, str | None]]:
    """Yield each differing fact of a kind with its values; None: absent.

    A command that is gone has moved if the only new one with the same last word has another place. Its values are then
    both names. A tool that one release only names says nothing where the other, which may be older than the look for
    such tools, offers none of that name.
    """
    found = [*_differing(was, now)]
    if kind != Kind.COMMAND:
        yield from (row for row in found if {*row[1:]} != {None, SEARCHED})
        return
    gone, new = (_by_last_word(name for name, *values in found if values[at] is None) for at in (1, 0))
    moved = {gone[word][0]: gone_to for word, (gone_to, *more) in new.items() if not more and len(gone[word]) == 1}
    for name, before, after in found:
        if name in moved:
            yield name, name, moved[name]
        elif name not in moved.values():
            yield name, before, after


def _by_last_word(names: Iterable[str]) -> Mapping[str, list[str]]:
    """Sort commands by their last word, without options."""
    found = defaultdict[str, list[str]](list)
    for name in names:
        if ": " not in name:
            found[name.rpartition(" ")[2]].append(name)
    return found


def _differing(was: Mapping[str, str], now: Mapping[str, str]) -> Iterator[tuple[str, str | None, str | None]]:
    """Yield each differing fact; a key that comes or goes with its record, or with the key above it, is left out."""
    for name in was.keys() | now.keys():
        before, after, above = was.get(name), now.get(name), _above(name)
        is_hidden = before == HIDDEN and after is None
        if before != after and not is_hidden and (above in was) == (above in now):
            yield name, before, after


def _above(name: str) -> str:
    """Return the key or record to which a key belongs."""
    record, colon, path = name.rpartition(": ")
    return f"{record}{colon}{path.rpartition('.')[0].removesuffix('[]')}" if "." in path else record


class Head(Struct, frozen=True, kw_only=True):
    """The first line of a file."""

    engine: str
    machine: str
    published: Mapping[str, str | None]
    schema: str = SCHEMA


class Line(_Release, frozen=True, kw_only=True, omit_defaults=True):
    """A release by its difference from the one before it: null is what it lacks."""

    clauses: Mapping[str, KnownResult | None] = field(default_factory=dict)
    facts: Mapping[str, Mapping[str, str | None] | None] = field(default_factory=dict)


def read(path: Path) -> History:
    """Read a file; ContractError if it is damaged, or a newer turngate wrote it."""
    try:
        first, *rest = read_regular(path).splitlines()
        head = decode(first, Head)
        version_of(head.schema, SCHEMA)
        releases, before = list[KnownRelease](), KnownRelease(version="")
        for text in rest:
            line = decode(text, Line)
            facts = {
                section: _patched(before.facts.get(section, {}), patch)
                for section, patch in line.facts.items()
                if patch is not None
            }
            kept = {section: known for section, known in before.facts.items() if section not in line.facts}
            before = convert(
                structs.asdict(line) | {"clauses": _patched(before.clauses, line.clauses), "facts": kept | facts},
                KnownRelease,
            )
            releases.append(before)
    except (OSError, ValueError) as wrong:
        raise ContractError(f"can't be read: {wrong}", str(path), hint="install turngate again") from wrong
    return History(engine=head.engine, machine=head.machine, published=head.published, releases=tuple(releases))


def _patched(was: Mapping[str, _T], patch: Mapping[str, _T | None]) -> Mapping[str, _T]:
    """Return a mapping with the values of a patch, whose null removes a key."""
    kept = {name: value for name, value in was.items() if name not in patch}
    return kept | {name: value for name, value in patch.items() if value is not None}
