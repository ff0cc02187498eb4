"""`turngate contracts check` on the bundled contracts, on edited ones, and against recordings."""

import re
import shutil
from contextlib import chdir
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.packaging.test_writing_a_contract import FIRST
from tests.tables import each
from turngate import cli
from turngate.contract import load
from turngate.files import simulation_files
from turngate_probes.cli.contract_check import compared, probe_of
from turngate_probes.releases import recorded_releases
from turngate_probes.releases.recorded_releases import ContractRecordings

CODEX = Path(load.__file__).parents[1] / "engines/codex.yaml"
FIXTURES = Path(__file__).parents[3] / "fixtures"


def changed(folder: Path, *changes: tuple[str, str]) -> Path:
    """Return a copy of codex's contract with these texts replaced."""
    text = CODEX.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    (folder / "codex.yaml").write_text(text)
    return folder / "codex.yaml"


@pytest.fixture(name="recorded")
def _recorded(tmp_path: Path) -> Path:
    """Recordings of one working release and of one broken one."""
    folder = tmp_path / "fixtures"
    for version in ("0.169.0", "0.42.0"):
        shutil.copytree(FIXTURES / "codex" / version, folder / "codex" / version)
    return folder


def linted(capsys: pytest.CaptureFixture[str], *args: str | Path) -> tuple[int, list[str], str]:
    """Run the check; return the exit code, the lines of the mistakes and stdout."""
    code = cli.run(["contracts", "check", *map(str, args)])
    said = capsys.readouterr()
    return code, [line for line in said.err.splitlines() if not line.startswith("next: ")], said.out


@pytest.mark.long
@pytest.mark.nightly
def test_what_is_packaged_agrees_with_every_recording(capsys: pytest.CaptureFixture[str]) -> None:
    """The bundled contracts agree with all recordings; unverified claims are listed."""
    code, wrong, clean = linted(capsys)
    assert (code, wrong) == (0, [])
    assert [line.partition(":")[0] for line in clean.splitlines()] == [
        *(f"engines/{name}.yaml" for name in load.engine_names()),
        *(f"simulations/{name}.yaml" for name in simulation_files()),
    ]
    assert "engines/iflow.yaml: valid, compared with 1 recorded release\n" in clean
    assert re.search(r"engines/codex.yaml: valid, compared with \d+ recorded releases, unverified: \$.sticky", clean)


def test_a_contract_without_a_tool_call_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no mistake, but no release that it covers can be compatible; each stretch without one is named."""
    monkeypatch.setattr(recorded_releases, "CHECKOUT", tmp_path / "none")
    text = CODEX.read_text()
    calls = ("tool_call: ", "command_call: ")
    for line in [line for line in text.splitlines() if line.strip().startswith(calls)]:
        text = text.replace(f"{line}\n", "")
    (tmp_path / "codex.yaml").write_text(text)
    code, wrong, said = linted(capsys, tmp_path / "codex.yaml")
    assert (code, wrong) == (0, [])
    assert "codex.yaml: $.hermetic" in said
    assert all(f"names no {call}, so no release is compatible" in said for call in ("tool_call", "command_call"))
    assert "tool_call" not in linted(capsys, CODEX)[2]


def test_all_mistakes_are_reported_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Schema errors and other errors are all reported in one run."""
    file = changed(tmp_path, ("status: active", "status: asleep"), ("clause: help.surface", "clause: no.such"))
    code, wrong, _ = linted(capsys, file)
    assert code == 2
    assert len(wrong) == 2
    assert "$.lifecycle.status: 'asleep' is not one of" in wrong[0]
    assert "$.help.evidence[0]: unknown clause 'no.such' (see clauses.yaml)" in wrong[1]


def test_evidence_that_shows_nothing_and_overlaps_are_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Useless evidence and overlapping entries are reported with their lines."""
    file = changed(
        tmp_path,
        ("clause: help.surface", "clause: no.such"),
        ("    until: 0.147.0\n", ""),
        ("flag: --approve-for-me", "flag: --full-auto"),
    )
    code, wrong, _ = linted(capsys, file)
    line = 1 + file.read_text().partition("clause: no.such")[0].count("\n")
    assert code == 2
    assert wrong[0].startswith(f"{file}:{line}:")
    assert "unknown clause 'no.such'" in wrong[0]
    assert any("makes a claim about --full-auto as entry 2 does" in mistake for mistake in wrong)


def test_a_range_that_a_recording_contradicts_is_found(
    tmp_path: Path, recorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A claim that a recording contradicts is reported at its line, with the failing clause."""
    file = changed(tmp_path, ("field: thread_id", "field: session_id"))
    code, wrong, _ = linted(capsys, file, "--fixtures", recorded, "--broken", "codex@0.42.0")
    line = 1 + file.read_text().partition("  handle_type")[0].count("\n")
    assert code == 2
    first = next(mistake for mistake in wrong if "contradict" in mistake)
    assert first.startswith(f"{file}:{line}:")
    assert "recordings of codex@0.169.0 contradict it: handle.present: " in first


def test_a_deviation_that_a_recording_refutes_is_found(
    tmp_path: Path, recorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A deviation that did not occur in the recordings is reported at its line."""
    entry = "{clause: resume.other-cwd, symptom: hang, action: stay, evidence: [{observed: once}]}"
    file = changed(tmp_path, ("\ndeviations:\n", f"\ndeviations:\n  - {entry}\n"))
    code, wrong, _ = linted(capsys, file, "--fixtures", recorded, "--broken", "codex@0.42.0")
    line = 1 + file.read_text().partition(entry)[0].count("\n")
    assert code == 2
    assert any(mistake.startswith(f"{file}:{line}:") and "hang did not occur" in mistake for mistake in wrong)


@pytest.mark.long
def test_a_release_that_no_range_covers_is_found(
    tmp_path: Path, recorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A recorded release that the contract doesn't cover is reported."""
    file = changed(tmp_path, ("launch:\n  start", "launch:\n  since: 0.44.0\n  start"))
    code, wrong, _ = linted(capsys, file, "--fixtures", recorded)
    assert code == 2
    assert any(
        "the contract doesn't cover codex 0.42.0" in mistake and "but there are recordings" in mistake
        for mistake in wrong
    )


@pytest.mark.long
def test_a_broken_release_is_excused_by_name_and_only_while_it_is(
    recorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """--broken excuses a broken release by name, and is an error if its recordings aren't broken."""
    code, wrong, _ = linted(capsys, CODEX, "--fixtures", recorded)
    assert code == 2
    assert all("recordings of codex@0.42.0 contradict it" in mistake for mistake in wrong if "recordings of" in mistake)
    args = ("--fixtures", recorded, "--broken", "codex@0.42.0", "--broken", "codex@0.169.0")
    code, wrong, _ = linted(capsys, CODEX, *args)
    assert code == 2
    assert any("codex@0.169.0 is excused, but its recordings show nothing broken" in mistake for mistake in wrong)
    code, wrong, _ = linted(capsys, CODEX, "--broken", "codex@0.1.0")
    assert (code, len(wrong)) == (2, 1)
    assert "codex@0.1.0 is excused, but there are no recordings of it" in wrong[0]


@pytest.mark.long
def test_recordings_that_keep_too_much_are_told(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A vendor prompt or a request body in a recording is reported with its file and line."""
    file = recorded / "codex/0.169.0/main-first/requests.ndjson"
    clean = file.read_text()
    args = (CODEX, "--fixtures", recorded, "--broken", "codex@0.42.0")
    for old, new, what in (
        (
            '"user_texts":[',
            '"user_texts":["You are a coding agent",',
            f"{file}:1:1: $.user_texts[0]: contains text that",
        ),
        ('"user_texts":[', '"body":"x","user_texts":[', f"{file}:1:1: Object contains unknown field `body`"),
    ):
        file.write_text(clean.replace(old, new, 1))
        code, wrong, _ = linted(capsys, *args)
        assert code == 2
        assert [mistake for mistake in wrong if mistake.startswith(what) and "(record the release again" in mistake]
    file.write_text(clean)
    assert not any(str(file) in mistake for mistake in linted(capsys, *args)[1])


@pytest.mark.long
def test_a_recording_that_is_not_there_is_no_evidence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Evidence that names a missing recording is an error."""
    file = changed(tmp_path, ("clause: help.surface", "recording: codex/0.169.0/nothing-first"))
    code, wrong, _ = linted(capsys, file, "--fixtures", FIXTURES, "--broken", "codex@0.42.0")
    assert code == 2
    assert [mistake.partition(" (")[0].rpartition(": ")[2] for mistake in wrong] == [
        "there is no recording codex/0.169.0/nothing-first"
    ]


@pytest.mark.long
def test_recordings_beside_contracts_are_read_unasked(
    tmp_path: Path, recorded: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Recordings of an overlay and of the checkout are checked by default."""
    (tmp_path / "engines").mkdir()
    (recorded / "broken.yaml").write_text("codex@0.42.0: it prints no id\n")
    file = changed(tmp_path / "engines", ("field: thread_id", "field: session_id"))
    monkeypatch.setattr(recorded_releases, "CHECKOUT", tmp_path / "none")
    code, wrong, _ = linted(capsys, file)
    assert code == 2
    assert any("recordings of codex@0.169.0 contradict it: handle.present: " in mistake for mistake in wrong)
    assert not any("0.42.0" in mistake or "there is no recording" in mistake for mistake in wrong)
    changed(tmp_path / "engines", ("clause: help.surface", "recording: codex/0.169.0/nothing-first"))
    monkeypatch.setattr(recorded_releases, "CHECKOUT", FIXTURES)
    assert linted(capsys, file)[1][0].partition(" (")[0].endswith("no recording codex/0.169.0/nothing-first")


def test_without_recordings_a_contract_is_linted_by_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without any recordings, as in an installed package, only the contract itself is checked."""
    monkeypatch.setattr(recorded_releases, "CHECKOUT", tmp_path / "none")
    assert linted(capsys, CODEX)[:2] == (0, [])


@pytest.mark.long
def test_a_list_of_broken_releases_that_is_none_is_told(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An invalid `broken.yaml` is reported with the expected format; a valid one excuses its releases."""
    (recorded / "broken.yaml").write_text("- codex@0.42.0\n")
    (wrong,) = linted(capsys, CODEX, "--fixtures", recorded)[1][-1:]
    assert "is not a list of broken releases (write `engine@version: why`)" in wrong
    (recorded / "broken.yaml").write_text("codex@0.42.0: it prints no id\n")
    assert not any("contradict" in mistake for mistake in linted(capsys, CODEX, "--fixtures", recorded)[1])


def test_recordings_are_read_from_the_named_folder(recorded: Path, tmp_path: Path) -> None:
    """Only the recordings in the given folder are read."""
    assert list(recorded_releases.releases("codex", [recorded])) == ["0.42.0", "0.169.0"]
    assert recorded_releases.releases("gemini", [recorded]) == {}


def test_recorded_releases_are_counted_for_contracts(recorded: Path) -> None:
    """A contract is compared with each recorded release of its engine, a simulation with none."""
    recordings = ContractRecordings([recorded], whole=True)
    assert compared(load.read(CODEX), recordings) == 2
    assert compared(load.read(CODEX), None) == 0
    assert compared(load.read(simulation_files()["codex"]), recordings) == 0


@each(
    "folder, more, made, target",
    [
        ("my", "", "", "turngate --contracts my probe acme=PATH"),
        ("my", "", "acme", "turngate --contracts my probe acme=./acme"),
        ("my", "executable: sh\n", "", "turngate --contracts my probe acme"),
        ("my", "published: {pypi: {package: acme-cli}}\n", "", "turngate --contracts my probe acme@latest"),
        ("m y", "", "", "turngate --contracts 'm y' probe acme=PATH"),
        (".", "", "", "turngate --contracts . probe acme=PATH"),
    ],
)
def test_the_command_after_a_valid_contract_is_told(
    tmp_path: Path, folder: str, more: str, made: str, target: str
) -> None:
    """It is a probe with the executable that is known: one here or on PATH, else that of a registry."""
    with chdir(tmp_path):
        file = Path(folder, "engines/acme.yaml")
        file.parent.mkdir(parents=True)
        file.write_text(FIRST + more)
        if made:
            Path(made).touch()
        assert probe_of({file: load.read(file)}) == target


def test_a_contract_that_no_command_reads_there_is_to_be_moved(tmp_path: Path) -> None:
    """Contracts are read from a folder `engines`; those in it are probed together, and a simulation is not."""
    document, simulation = load.parse(FIRST, "acme.yaml"), load.read(simulation_files()["codex"])
    assert probe_of({Path("acme.yaml"): document}) == (
        "move acme.yaml to my/engines, and then turngate --contracts my probe acme=PATH"
    )
    other = replace(document, data=document.data | {"engine": "base"})
    both = {tmp_path / "engines/acme.yaml": document, tmp_path / "engines/base.yaml": other}
    assert probe_of(both) == f"turngate --contracts {tmp_path} probe acme=PATH base=PATH"
    assert probe_of({CODEX: load.read(CODEX)}).startswith("turngate probe codex")
    assert probe_of({tmp_path / "simulations/codex.yaml": simulation}) == ""


def test_the_last_line_is_the_next_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is a probe after valid contracts, and after the first one with mistakes the check of that one again."""
    (tmp_path / "engines").mkdir()
    good, bad = tmp_path / "engines/acme.yaml", tmp_path / "engines/base.yaml"
    good.write_text(FIRST)
    said = linted(capsys, good)[2]
    assert said.startswith(f"{good}: valid, unverified: $.version, $.launch, ")
    assert said.endswith(f"\nnext: turngate --contracts {tmp_path} probe acme=PATH\n")
    bad.write_text(FIRST.replace("engine: acme", "engine: base\nnonsense: 1"))
    assert cli.run(["contracts", "check", str(tmp_path), "--fixtures", str(tmp_path), "--broken", "base@1.0.0"]) == 2
    told = capsys.readouterr()
    again = f"turngate contracts check --fixtures {tmp_path} --broken base@1.0.0 {bad}"
    assert (told.err.splitlines()[-1], "next: " in told.out) == (f"next: correct it, and then {again}", False)
