import json
import resource
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from tests.probes.report import journals as j
from tests.probes.report import samples
from turngate.errors import MachineError, UsageError
from turngate_probes.journal import journal
from turngate_probes.journal.events import Event, InstallProgress, TurnEvent
from turngate_probes.journal.journal import LONGEST_TEXT, Journal, is_growing, read
from turngate_probes.report.build import build

LINE = b'{"event": "install.progress", "at": "", "release": "codex@1", "text": ""}\n'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a journal in a folder that does not exist yet."""
    return tmp_path / "run" / "journal.ndjson"


def says(text: str = "") -> InstallProgress:
    """Return an event with this text."""
    return InstallProgress("codex@1", text=text)


def texts(path: Path) -> list[str]:
    """Return the texts of a journal's events."""
    return [event.text for event in read(path) if isinstance(event, InstallProgress)]


def test_what_is_added_is_read_again_in_order(path: Path) -> None:
    """Events are read back unchanged and in order, with a timestamp."""
    journal = Journal(path)
    added = [j.started(), *samples.whole(), j.call(), j.failed(), j.ended()]
    for event in added:
        journal.add(event)
    journal.close()
    events = list(read(path))
    assert [structs.replace(event, at="") for event in events] == [structs.replace(event, at="") for event in added]
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["event"] for line in lines[:2]] == ["probe.started", "release.planned"]


def test_the_time_is_utc_with_milliseconds(path: Path) -> None:
    """Each event has the UTC time at which it was added, with milliseconds."""
    journal = Journal(path)
    journal.add(says())
    journal.close()
    (event,) = read(path)
    at = datetime.fromisoformat(event.at)
    assert at.utcoffset() == timedelta(0)
    assert abs(datetime.now(UTC) - at) < timedelta(minutes=1)
    assert len(event.at) == len("2026-11-21T10:00:00.000+00:00")


def test_an_event_is_on_disk_before_the_next(path: Path) -> None:
    """Each event is on disk as soon as it is added."""
    journal = Journal(path)
    journal.add(says("fetching"))
    assert texts(path) == ["fetching"]
    journal.close()


def test_a_torn_last_line_is_skipped(path: Path) -> None:
    """A partly written last line is skipped, wherever it ends."""
    journal = Journal(path)
    journal.add(says("one"))
    journal.add(says("größer"))
    journal.close()
    whole = path.read_bytes()
    after_first = whole.index(b"\n") + 1
    for end in range(after_first, len(whole) - 1):
        path.write_bytes(whole[:end])
        assert texts(path) == ["one"], end


@pytest.mark.parametrize(
    "line", [b"{torn", b"[]", b"7", b'{"event": 3, "at": ""}', b'{"at": ""}', b"\xff", b"", b'{"event": "a"}']
)
def test_any_other_line_that_is_no_event_is_named(path: Path, line: bytes) -> None:
    """Any other invalid line is an environment failure that names the line number."""
    path.parent.mkdir()
    path.write_bytes(LINE + line + b"\n" + LINE)
    with pytest.raises(UsageError, match="line 2 is not an event"):
        list(read(path))


def test_the_journal_of_an_earlier_turngate_is_read() -> None:
    """A journal that version 0.1.0 wrote is read, and becomes a report; the file must never change."""
    report = build(read(Path(__file__).with_name("probe-events-2.ndjson")))
    assert [(release.release, release.turns, len(release.clauses)) for release in report.releases] == [
        ("codex@0.169.0", 7, 4)
    ]
    assert report.releases[0].clause_set == "2026-11"


def test_the_journal_of_a_newer_turngate_is_refused(path: Path) -> None:
    """The error says so and what to do, and the file stays as it is."""
    path.parent.mkdir()
    newer = b'{"event": "probe.begun", "at": "", "more": 1, "schema": "turngate.probe-events/3"}\n' + LINE
    path.write_bytes(newer)
    why = r"a newer turngate wrote it: its format is turngate\.probe-events/3.* up to .*/2.*run the probe again"
    with pytest.raises(UsageError, match=why):
        list(read(path))
    assert path.read_bytes() == newer


def test_a_missing_journal_is_an_environment_failure(path: Path) -> None:
    """Reading a missing journal is an environment failure."""
    with pytest.raises(UsageError, match="can't read"):
        list(read(path))


def test_an_unwritable_place_is_an_environment_failure(tmp_path: Path) -> None:
    """A journal that can't be created is an environment failure."""
    (tmp_path / "file").write_text("")
    with pytest.raises(MachineError, match="can't write"):
        Journal(tmp_path / "file" / "journal.ndjson")


def test_a_full_disk_is_an_environment_failure(path: Path) -> None:
    """An event that can't be written is an environment failure; a file size limit simulates a full disk."""
    journal, before = Journal(path), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        with pytest.raises(MachineError, match="can't write"):
            journal.add(says())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        journal.close()


def test_threads_write_whole_lines_and_tell_listeners_in_order(path: Path) -> None:
    """Events of many threads are written as whole lines, and listeners get them in file order."""
    received: list[Event] = []
    journal = Journal(path, [received.append])

    def add_many(thread: int) -> None:
        for number in range(50):
            journal.add(says(f"{thread} {number}" + " x" * 250))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add_many, range(8)))
    journal.close()
    events = list(read(path))
    assert events == received
    assert sorted(text.removesuffix(" x" * 250) for text in texts(path)) == sorted(
        f"{thread} {number}" for thread in range(8) for number in range(50)
    )


def test_a_journal_grows_until_it_is_closed(path: Path) -> None:
    """Others can tell that a probe still runs."""
    with closing(Journal(path)):
        assert is_growing(path)
    assert not is_growing(path)


def test_events_after_the_end_are_dropped(path: Path) -> None:
    """Events added after the journal is closed are dropped."""
    received: list[Event] = []
    journal = Journal(path, [received.append])
    journal.close()
    journal.close()
    journal.add(says())
    assert list(read(path)) == received == []


def test_an_older_journal_is_replaced(path: Path) -> None:
    """A new journal replaces an old one at the same path."""
    for kind in ("old", "new"):
        journal = Journal(path)
        journal.add(says(kind))
        journal.close()
    assert texts(path) == ["new"]


def deep(text: str) -> Any:
    """Return an event that has this text at every depth."""
    return j.turn(cwd=text, argv=["codex", text], stdout={"bytes": 1, "excerpt": text})


@pytest.mark.parametrize(
    "made",
    [lambda: "sk-" + "a1B2" * 6, lambda: "https://registry.example.com/@openai/codex"],
    ids=["key", "host"],
)
def test_secrets_and_registries_never_reach_the_file_or_the_listeners(path: Path, made: Callable[[], str]) -> None:
    """Secrets and registry hosts are redacted everywhere in an event."""
    received: list[Event] = []
    journal = Journal(path, [received.append])
    journal.add(deep(f"before {made()} after"))
    journal.close()
    for text in (path.read_text(), repr(received)):
        assert made() not in text
        assert "registry.example" not in text
        assert text.count("before <") == text.count("after") == 3


def test_long_text_is_bounded(path: Path) -> None:
    """A text of 200 KB is cut in the middle, and the cut states how much was left out."""
    journal = Journal(path)
    journal.add(j.turn(argv=["START" + " x" * 100_000 + "END"]))
    journal.close()
    (event,) = read(path)
    assert isinstance(event, TurnEvent)
    (word,) = event.argv
    assert word.startswith("START")
    assert word.endswith("END")
    assert f"{200_008 - LONGEST_TEXT} characters left out" in word
    assert len(word) < LONGEST_TEXT + 100


@given(text=st.text(st.characters(categories=["L", "Cs", "Cc", "Zs"]), max_size=50))
def test_any_text_is_written_and_can_be_printed(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    """Any text can be written and printed, even lone surrogates."""
    path = tmp_path_factory.mktemp("any") / "journal"
    journal = Journal(path)
    journal.add(says(text))
    journal.close()
    texts(path)[0].encode("utf-8")


def test_a_full_disk_is_not_the_fault_of_the_journal(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the disk that is full, and what to do."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(journal, "_write_all", full)
    with (
        closing(Journal(path)) as written,
        pytest.raises(MachineError, match=f"^the disk of {path.parent} is full") as failed,
    ):
        written.add(says())
    assert "TURNGATE_CACHE_DIR" in failed.value.hint
