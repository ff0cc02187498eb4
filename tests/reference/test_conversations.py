"""`turngate start` and `turngate resume` over every recorded release: what they run, keep, print and exit with."""

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pytest_subprocess import FakeProcess
from pytest_subprocess.process_recorder import ProcessRecorder

from tests.contracts.process.fake_tree import FakeTree, HangingTree, forbid_signals
from tests.contracts.test_process import each_recorded_release
from tests.reference.cli_env import CliEnv, CliResult
from turngate.contract import load
from turngate.contract.structs import EngineContract
from turngate.process import Ended, ProcessOutcome, ProcessRequest, Stop, execution, run
from turngate.turn.envelope import Envelope, read_envelope
from turngate_probes.harness.observations import Turn
from turngate_probes.record import replay
from turngate_reference.conversations.cli import turns as cli
from turngate_reference.engine import attempt

SAYS = {"codex": "codex-cli {}", "claude": "{} (Claude Code)"}  # the others print the version alone


@each_recorded_release
def test_recorded_turns_are_started_and_resumed(
    cli_env: CliEnv, fp: FakeProcess, monkeypatch: pytest.MonkeyPatch, engine: str, version: str
) -> None:
    """Each runs the recorded command line, keeps the recorded bytes and session, and ends with the recorded code."""
    forbid_signals(monkeypatch)
    contract = load.contract(engine).at(version)
    person = Person(cli_env, fp, monkeypatch, contract, installed(cli_env, fp, contract))
    turns = replay.replay(contract).turns.values()
    # a prompt as an argument beside an open standard input is the probes' own
    typed = [turn for turn in turns if turn.stdin != "open"]
    handles = {turn.mode: person.starts(turn) for turn in typed if turn.resumed is None}
    for turn in typed:
        if turn.resumed is not None:
            person.resumes(turn, handles[turn.mode])


def installed(cli_env: CliEnv, fp: FakeProcess, contract: EngineContract) -> Path:
    """Put an executable on PATH that says its version, in a real process, and is never run for anything else."""
    cli_env.path.mkdir()
    executable = cli_env.path / contract.executable
    executable.write_text(f"#!/bin/sh\necho '{SAYS.get(contract.engine, '{}').format(contract.version)}'\n")
    executable.chmod(0o755)
    fp.pass_command([str(executable), *contract.version_query.argv])
    return executable


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who types what was recorded of one release, and looks at what comes of it."""

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
        asked += ["--", *options] if set(options) <= set(turn.argv) else []
        known = {path.stem for path in (self.cli_env.data / "handles").glob("*.json")}
        process = self.plays(turn)
        said = self.cli_env.type("start", self.contract.engine, *asked)
        (handle,) = {path.stem for path in (self.cli_env.data / "handles").glob("*.json")} - known
        self.looks(turn, handle, said, process)
        return handle

    def resumes(self, turn: Turn, handle: str) -> None:
        """Type a later turn of the session that was recorded."""
        self.cli_env.change(handle, {"session": {"field": self.contract.handle.field, "value": turn.resumed}})
        process = self.plays(turn)
        said = self.cli_env.type("resume", "--message-file", self.file(turn), handle)
        if turn.name == "bad-handles/malformed":
            assert (said.code, process.calls) == (2, []), "an id that is none is refused before anything runs"
            return
        self.looks(turn, handle, said, process)

    def file(self, turn: Turn) -> str:
        """Write the prompt to a file; return its path."""
        file = self.cli_env.root / "prompt"
        file.write_bytes(turn.prompt.encode())
        return str(file)

    def plays(self, turn: Turn) -> ProcessRecorder:
        """Register the recorded output for the next process of this command line, and of no other."""
        assert turn.exit_code is not None

        def played(request: ProcessRequest, *, stop: Stop, **callbacks: Any) -> ProcessOutcome:
            # a person who sees that nothing more comes gives up
            tree = FakeTree if turn.ended is Ended.EXIT else partial(HangingTree, on_hang=stop.set)
            with self.monkeypatch.context() as patched:
                patched.setattr(execution, "ProcessTree", tree)
                return run(request, stop=stop, **callbacks)

        self.monkeypatch.setattr(attempt, "run", played)
        command = [str(self.executable), *turn.argv[1:]]
        return self.fp.register(command, stdout=turn.stdout, stderr=turn.stderr, returncode=turn.exit_code)

    def looks(self, turn: Turn, handle: str, said: CliResult, process: ProcessRecorder) -> None:
        """Hold what a turn came to against its recording."""
        assert process.call_count() == 1, turn.name
        assert said.code == code_of(turn), (turn.name, said.err)
        record: dict[str, Any] = json.loads((self.cli_env.data / "handles" / f"{handle}.json").read_text())
        assert record["session"]["value"] == (turn.resumed or turn.session), turn.name
        assert record["state"] == state_of(turn), turn.name
        traces = Path(record["runDirectory"]) / ".turngate" / f"attempt-{record['turns']:03}"
        kept = [(traces / stream).read_bytes() for stream in ("stdout", "stderr")]
        assert kept == [turn.stdout, turn.stderr], turn.name
        assert json.loads((traces / "command.json").read_text())["argv"][1:] == [*turn.argv[1:]]
        if record["state"] == "asked":
            asked = read_envelope(turn.reading.final_text or "")
            assert isinstance(asked, Envelope)
            assert asked.interaction
            assert f"? {asked.interaction.prompt}\n" in said.out


def recorded_place(option: str) -> str:
    """Return an option of the probes as recordings show it."""
    for slot, place in (("{work}", "<sandbox>/work"), ("{tmp}", "<sandbox>/tmp"), ("{home}", "<sandbox>/home")):
        option = option.replace(slot, place)
    return option


def is_another_session(turn: Turn) -> bool:
    """Whether a resume came back as another session, or well as none."""
    if turn.resumed is None or turn.session == turn.resumed:
        return False
    return turn.session is not None or (turn.exit_code == 0 and turn.ended is Ended.EXIT)


def code_of(turn: Turn) -> int:
    """Return the exit code that a recorded turn leads to."""
    assert turn.exit_code is not None
    if turn.ended is not Ended.EXIT:
        return cli.INTERRUPTED
    if is_another_session(turn):
        return cli.OTHER_SESSION
    return turn.exit_code if turn.exit_code >= 0 else cli.SIGNALLED - turn.exit_code


def state_of(turn: Turn) -> str:
    """Return the state of the record after a recorded turn."""
    reading = turn.reading
    well = turn.exit_code == 0 and turn.ended is Ended.EXIT and reading.ended and not reading.failures
    if not well or reading.final_text is None or is_another_session(turn):
        return "failed"
    envelope = read_envelope(reading.final_text)
    return "asked" if isinstance(envelope, Envelope) and envelope.interaction else "answered"
