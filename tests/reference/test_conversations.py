"""Tests of whole commands: all recorded releases, real processes, interrupts, kills, and lean imports."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from msgspec.structs import replace
from pytest_subprocess import FakeProcess
from pytest_subprocess.process_recorder import ProcessRecorder

from tests.contracts.process.fake_tree import FakeTree, HangingTree, forbid_signals
from tests.contracts.test_process import NEWEST, RELEASES
from tests.longer import first_quick, only_quick
from tests.patience import PATIENCE
from tests.reference import cli_env as d
from tests.reference.cli_env import CliEnv, CliResult
from tests.tables import each
from turngate import Ended, ProcessRequest, Stop, TurnReader, TurnRun, run_turn
from turngate.argv.file_slot import SLOT
from turngate.contract import load
from turngate.contract.engine_contract import EngineContract
from turngate.process import execution
from turngate.process.family import is_alive
from turngate.process.supplied_files import supplied_folder
from turngate.turn.envelope import Envelope, read_envelope
from turngate_probes.harness.observations import Turn
from turngate_probes.record import replay
from turngate_probes.simulate.printing import fill, simulation
from turngate_reference.conversations.cli import turns as cli
from turngate_reference.engine import attempt

FEW = ("codex", "gemini", "opencode")


@pytest.mark.parametrize("engine,version", only_quick(RELEASES, *((engine, NEWEST[engine]) for engine in FEW)))
def test_recorded_turns_are_started_and_resumed(
    cli_env: CliEnv, fp: FakeProcess, monkeypatch: pytest.MonkeyPatch, engine: str, version: str
) -> None:
    """Each turn runs the recorded command line, saves the recorded output and session, and exits as recorded."""
    forbid_signals(monkeypatch)
    contract = load.contract(engine).at(version)
    person = Person(cli_env, fp, monkeypatch, contract, installed(cli_env, fp, contract))
    turns = replay.replay(contract).turns.values()
    # a prompt as an argument with an open standard input is only used by the probes
    typed = [turn for turn in turns if turn.stdin != "open"]
    handles = {turn.mode: person.starts(turn) for turn in typed if turn.resumed is None}
    for turn in typed:
        if turn.resumed is not None:
            person.resumes(turn, handles[turn.mode])


def installed(cli_env: CliEnv, fp: FakeProcess, contract: EngineContract) -> Path:
    """Put an executable on PATH that prints its version in a real process, and is run for nothing else."""
    cli_env.path.mkdir()
    executable = cli_env.path / contract.executable
    page = replay.replay(contract).pages.get("static/version")
    simulated = fill(simulation(contract).version, {"version": str(contract.version)})
    said = page.printed.on(contract.version_query.stream) if page else str(simulated)
    stream = " >&2" if contract.version_query.stream == "stderr" else ""
    executable.write_text(f"#!/bin/sh\necho {shlex.quote(said.strip())}{stream}\n")
    executable.chmod(0o755)
    # it belongs to no package, so each turn asks
    fp.pass_command([str(executable), *contract.version_query.argv], occurrences=100)
    return executable


@dataclass(frozen=True, slots=True)
class Person:
    """Types the recorded turns of one release, and checks the results.

    The person allows what the contract can't make safe: what was recorded are turns, not refusals.
    """

    cli_env: CliEnv
    fp: FakeProcess
    monkeypatch: pytest.MonkeyPatch
    contract: EngineContract
    executable: Path

    def starts(self, turn: Turn) -> str:
        """Type a first turn; return its handle."""
        asked = ["--prompt-file", self.file(turn), "--mode", turn.mode.value, "--cwd", str(self.cli_env.root)]
        hermetic = self.contract.hermetic
        if hermetic.model in turn.argv:
            asked += ["--model", hermetic.model]
        options = [recorded_place(token) for token in hermetic.options]
        asked += ["--", *self.started(options)] if set(options) <= set(turn.argv) else []
        known = {path.stem for path in (self.cli_env.data / "handles").glob("*.json")}
        process = self.plays(turn)
        said = self.cli_env.type("start", self.contract.engine, "--allow-unsafe", self.contract.engine, *asked)
        (handle,) = {path.stem for path in (self.cli_env.data / "handles").glob("*.json")} - known
        self.looks(turn, handle, said, process)
        return handle

    def resumes(self, turn: Turn, handle: str) -> None:
        """Type a later turn of the recorded session."""
        self.cli_env.change(handle, {"session": {"field": self.contract.handle.field, "value": turn.resumed}})
        process = self.plays(turn)
        allowed = ("--allow-unsafe", self.contract.engine)
        said = self.cli_env.type("resume", *allowed, "--message-file", self.file(turn), handle)
        self.looks(turn, handle, said, process)

    def file(self, turn: Turn) -> str:
        """Write the prompt to a file; return its path."""
        file = self.cli_env.root / "prompt"
        file.write_bytes(turn.prompt.encode())
        return str(file)

    def plays(self, turn: Turn) -> ProcessRecorder:
        """Register the recorded output for the next process with exactly this command line."""
        assert turn.exit_code is not None

        def played(request: ProcessRequest, reader: TurnReader, *, stop: Stop, **callbacks: Any) -> TurnRun:
            # a user who sees that nothing more happens gives up
            tree = FakeTree if turn.ended is Ended.EXIT else partial(HangingTree, on_hang=stop.set)
            with self.monkeypatch.context() as patched:
                patched.setattr(execution, "ProcessTree", tree)
                # no process runs that could prove that it is guarded, or print into a file
                return run_turn(replace(request, proof="", stdout_file=False), reader, stop=stop, **callbacks)

        self.monkeypatch.setattr(attempt, "run_turn", played)
        command = [str(self.executable), *self.started(turn.argv[1:])]
        return self.fp.register(command, stdout=turn.stdout, stderr=turn.stderr, returncode=turn.exit_code)

    def started(self, options: Iterable[str]) -> list[str]:
        """Return recorded options as this person's process should get them."""
        return [as_started(option, self.contract.guards.files) for option in options]

    def looks(self, turn: Turn, handle: str, said: CliResult, process: ProcessRecorder) -> None:
        """Compare the result of a turn with its recording."""
        assert process.call_count() == 1, turn.name
        assert said.code == code_of(turn), (turn.name, said.err)
        record: dict[str, Any] = json.loads((self.cli_env.data / "handles" / f"{handle}.json").read_text())
        assert record["session"]["value"] == (turn.resumed or turn.session), turn.name
        assert record["state"] == state_of(turn), turn.name
        traces = Path(record["runDirectory"]) / ".turngate" / f"attempt-{record['turns']:03}"
        kept = [(traces / stream).read_bytes() for stream in ("stdout", "stderr")]
        assert kept == [turn.stdout, turn.stderr], turn.name
        assert json.loads((traces / "command.json").read_text())["argv"][1:] == self.started(turn.argv[1:])
        if record["state"] == "waiting_user":
            asked = read_envelope(turn.reading.final_text or "")
            assert isinstance(asked, Envelope)
            assert asked.interaction
            assert f"? {asked.interaction.prompt}\n" in said.out


def recorded_place(option: str) -> str:
    """Return an option of the probes as recordings show it."""
    for slot, place in (("{work}", "<sandbox>/work"), ("{tmp}", "<sandbox>/tmp"), ("{home}", "<sandbox>/home")):
        option = option.replace(slot, place)
    return option


def as_started(option: str, files: Mapping[str, str]) -> str:
    """Replace a recorded directory by the working directory, the only one allowed in mode interactive.

    {files} becomes the folder of the files that the contract supplies.
    """
    if option in ("<sandbox>/work", "<sandbox>/tmp"):
        return "."
    return option.replace(SLOT, str(supplied_folder(files))) if files else option


def is_another_session(turn: Turn) -> bool:
    """Whether a resume returned another session, or succeeded without a session id."""
    if turn.resumed is None or turn.session == turn.resumed:
        return False
    return turn.session is not None or (turn.exit_code == 0 and turn.ended is Ended.EXIT)


def code_of(turn: Turn) -> int:
    """Return the exit code that a recorded turn should lead to."""
    assert turn.exit_code is not None
    if turn.ended is not Ended.EXIT:
        return cli.INTERRUPTED
    if is_another_session(turn):
        return cli.OTHER_SESSION
    if turn.exit_code == 0 and (not turn.reading.ended or turn.reading.failures or turn.reading.final_text is None):
        return cli.NO_ANSWER
    return turn.exit_code if turn.exit_code >= 0 else cli.SIGNALLED - turn.exit_code


def state_of(turn: Turn) -> str:
    """Return the state that the record should have after a recorded turn."""
    reading = turn.reading
    well = turn.exit_code == 0 and turn.ended is Ended.EXIT and reading.ended and not reading.failures
    if not well or reading.final_text is None or is_another_session(turn):
        return "failed"
    envelope = read_envelope(reading.final_text)
    return "waiting_user" if isinstance(envelope, Envelope) and envelope.interaction else "succeeded"


HEAVY = {
    "asyncio",
    "backports",
    "email",
    "flask",
    "hashlib",
    "http",
    "jinja2",
    "jsonschema",
    "logging",
    "platformdirs",
    "prometheus_client",
    "random",
    "referencing",
    "rich",
    "secrets",
    "semver",
    "shlex",
    "shutil",
    "sqlite3",
    "ssl",
    "tempfile",
    "turngate_probes",
    "turngate_reference.server",
    "waitress",
    "werkzeug",
    "yaml",
}
LEAN = """
import sys
from turngate import cli
code = cli.run(sys.argv[1:])
print(code, *sorted({name.partition(".")[0] for name in sys.modules} | {n for n in sys.modules if "turngate" in n}))
"""


@pytest.fixture(name="handle")
def _handle(cli_env: CliEnv) -> str:
    """Provide a conversation whose next turn can be met."""
    cli_env.fifos()
    cli_env.engine("codex", d.codex("hi"), d.codex("Slow.", more=[["meet"]]), d.codex("Next."))
    return cli_env.begin()


@pytest.mark.long
def test_of_two_resumes_at_once_one_runs_and_the_other_is_told(cli_env: CliEnv, handle: str) -> None:
    """The second command exits with 2, names the first one's process, and runs nothing; then the handle is free."""
    first = cli_env.spawn("resume", handle, "one")
    cli_env.meet()
    second = cli_env.spawn("resume", handle, "two")
    _, reported = second.communicate(timeout=PATIENCE)
    assert second.returncode == 2
    assert f"{handle} is in use by process {first.pid}, since 20" in reported
    assert [call["stdin"] for call in cli_env.calls()] == ["hello", "one"]
    cli_env.release()
    assert first.communicate(timeout=PATIENCE)[0] == "Slow.\n"
    assert first.returncode == 0
    assert cli_env.type("resume", handle, "three").code == 0
    assert cli_env.record(handle)["turns"] == 3


@pytest.mark.processes
def test_the_lock_of_a_process_that_crashed_is_none(cli_env: CliEnv, handle: str) -> None:
    """After SIGKILL of its holder, a handle can be resumed at once; the leftover engine is ended."""
    holder = cli_env.spawn("resume", handle, "one")
    engine = psutil.Process(cli_env.meet())
    holder.kill()
    holder.communicate(timeout=PATIENCE)
    record = cli_env.record(handle)
    assert (record["state"], record["session"]["value"]) == ("running", d.SESSION)
    assert is_alive(engine)
    assert cli_env.type("resume", handle, "two").out == "Next.\n"
    assert not is_alive(engine)


@pytest.mark.processes
def test_prune_ends_an_engine_that_was_left(cli_env: CliEnv, handle: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No engine keeps running in a removed directory; if it can't be ended, the conversation is kept."""
    holder = cli_env.spawn("resume", handle, "one")
    engine = psutil.Process(cli_env.meet())
    holder.kill()
    holder.communicate(timeout=PATIENCE)
    prune = ("handles", "prune", "--older-than", "0h")
    with monkeypatch.context() as patch:
        patch.setattr("turngate.process.family.TERM_GRACE", 0.1)
        patch.setattr("turngate.process.family.KILL_GRACE", 0.1)
        patch.setattr(psutil.Process, "send_signal", lambda *_: None)
        kept = cli_env.type(*prune)
    assert f"kept: an earlier attempt of {handle} still runs: process {engine.pid} can't be stopped" in kept.err
    directory = Path(cli_env.record(handle)["runDirectory"])
    assert (is_alive(engine), directory.is_dir()) == (True, True)
    assert cli_env.type(*prune).out.startswith(f"removed {handle} ")
    assert (is_alive(engine), directory.exists()) == (False, False)


@pytest.mark.processes
def test_a_resume_is_refused_while_an_engine_that_was_left_lives_on(
    cli_env: CliEnv, handle: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine that can't be ended is named, and nothing runs."""
    holder = cli_env.spawn("resume", handle, "one")
    engine = psutil.Process(cli_env.meet())
    holder.kill()
    holder.communicate(timeout=PATIENCE)
    monkeypatch.setattr("turngate.process.family.TERM_GRACE", 0.1)
    monkeypatch.setattr("turngate.process.family.KILL_GRACE", 0.1)
    with monkeypatch.context() as patch:
        patch.setattr(psutil.Process, "send_signal", lambda *_: None)
        refused = cli_env.type("resume", handle, "two")
    assert refused.code == 2
    assert f"{handle} still runs: process {engine.pid} can't be stopped" in refused.err
    assert [call["stdin"] for call in cli_env.calls()] == ["hello", "one"]
    engine.kill()


def test_a_start_that_crashed_is_listed_and_pruned(cli_env: CliEnv) -> None:
    """A conversation whose first attempt was killed has a record, so it can be listed and removed."""
    cli_env.fifos()
    cli_env.engine("codex", d.codex("hi", more=[["meet"]]))
    process = cli_env.spawn("start", "codex", "hello")
    engine = cli_env.meet()
    process.kill()
    process.communicate(timeout=PATIENCE)
    assert re.search(r"codex +running +hello", cli_env.type("handles").out)
    assert "removed" in cli_env.type("handles", "prune", "--older-than", "0h").out
    assert list((cli_env.data / "runs").iterdir()) == []
    with suppress(ProcessLookupError):  # it may have noticed that nobody reads it
        os.kill(engine, signal.SIGKILL)


@pytest.mark.processes
@pytest.mark.parametrize("number", first_quick([signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP]))
def test_an_interrupt_ends_the_engine_and_the_record_is_written(cli_env: CliEnv, number: signal.Signals) -> None:
    """An interrupted start exits with 130 and leaves no process; the record holds the new session."""
    cli_env.fifos()
    cli_env.keep_session()
    cli_env.engine("codex", d.codex("hi", more=[["meet"]]))
    # under nohup, the tests and the command would inherit that SIGHUP is ignored
    before = signal.signal(number, signal.SIG_DFL)
    try:
        process = cli_env.spawn("start", "codex", "hello")
    finally:
        signal.signal(number, before)
    engine = psutil.Process(cli_env.meet())
    process.send_signal(number)
    _, reported = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert not engine.is_running()
    record = cli_env.only_record()
    assert (record["state"], record["session"]["value"]) == ("failed", d.SESSION)
    said, handle = reported.splitlines()
    assert said == f"interrupted; see {record['runDirectory']}/.turngate/attempt-001"
    assert handle == f"handle {record['handle']}; to continue: turngate resume {record['handle']} MESSAGE"


@pytest.mark.processes
def test_when_the_reader_of_the_answer_goes_away_the_record_is_written(cli_env: CliEnv) -> None:
    """As in `turngate start … | head`: the engine is ended, the exit code is 141, and the session is kept."""
    cli_env.fifos()
    begin, rest = d.codex("hi")[:1], d.codex("hi")[1:]
    cli_env.engine("codex", [*begin, ["meet"], *rest])
    process = cli_env.spawn("start", "codex", "hello")
    cli_env.meet()
    assert process.stdout
    process.stdout.close()
    cli_env.release()
    assert process.stderr
    process.stderr.read()
    assert process.wait(PATIENCE) == 141
    assert cli_env.only_record()["session"]["value"] == d.SESSION
    with suppress(subprocess.SubprocessError):
        process.kill()
    process.stderr.close()


@pytest.mark.skipif(
    not Path("/dev/full").exists(),
    reason="macOS has no /dev/full, and a limit on file sizes would keep the record from being written too",
)
@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_an_answer_that_can_not_be_printed_is_an_error(cli_env: CliEnv, flags: tuple[str, ...]) -> None:
    """As in `turngate resume … > /dev/full`: one error message and exit code 2; the record keeps its session."""
    cli_env.engine("codex", d.codex("hi"))
    handle = cli_env.begin()
    with Path("/dev/full").open("wb") as full:
        argv = [d.TURNGATE, "resume", *flags, handle, "go on"]
        resumed = subprocess.run(argv, stdout=full, stderr=subprocess.PIPE, text=True, timeout=PATIENCE, check=False)
    assert resumed.returncode == 2
    assert resumed.stderr.endswith("Error: can't write the output: No space left on device\n")
    assert "Traceback" not in resumed.stderr
    record = cli_env.record(handle)
    assert (record["turns"], record["session"]["value"]) == (2, d.SESSION)


@pytest.mark.long
@pytest.mark.nightly
def test_start_and_resume_import_what_they_need_alone(cli_env: CliEnv) -> None:
    """Validation, terminal drawing, the server and the probes are not imported to run an engine."""
    cli_env.engine("codex", d.codex("hi"))
    handle = cli_env.begin()
    # the first call after a change of the contract parses and keeps it
    subprocess.run([sys.executable, "-c", LEAN, "start", "codex", "hello"], check=True, capture_output=True)
    for words in (("start", "codex", "hello"), ("resume", handle, "go on")):
        argv = [sys.executable, "-c", LEAN, *words]
        out = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
        code, *modules = out.splitlines()[-1].split()
        assert code == "0"
        assert "turngate_reference.conversations.conversation" in modules
        assert HEAVY & set(modules) == set()


SLOW = ["flask", "importlib.metadata", "importlib.resources", "jsonschema", "rich", "sqlite3", "tempfile"]
SLOW += [
    "turngate_reference.server.orchestrator",
    "turngate_reference.server.store",
]  # a conversation that isn't a served run needs no database

RESUME = """
import sys
import turngate_reference.conversations.cli.turns, turngate.cli
from turngate.argv.file_slot import SLOT
from turngate.contract import load
from turngate.process.supplied_files import supplied_folder
from turngate.turn.envelope import read_envelope
load.contract("codex").at()
question = '{"kind": "confirm", "prompt": "So?", "options": [], "required_fields": [], "context": {}}'
assert read_envelope('{"outcome": "ask_user", "interaction": ' + question + '}').interaction
print(*sys.modules)
"""


@pytest.fixture(scope="module")
def imported() -> set[str]:
    """Return the modules imported to run the command and to read a contract and an answer."""
    done = subprocess.run([sys.executable, "-c", RESUME], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.long
@pytest.mark.nightly
@each("module", SLOW)
def test_a_resume_does_not_import_what_is_slow(imported: set[str], module: str) -> None:
    """Each of these modules takes longer to import than a turn takes to read."""
    assert module not in imported
