"""Argument vectors of real releases with their recorded outcomes, and how a process or a simulation ends with them."""

import re
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import msgspec

from turngate.argv import build
from turngate.contract import load
from turngate.contract.engine_contract import EngineContract
from turngate.decoding import convert
from turngate.model import Mode
from turngate.turn.read import read_turn
from turngate_probes.harness.sandbox import Sandbox

FOLDER = Path(__file__).parent / "argument_vectors"
REMEMBERED = "Remember the plum."
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class Vector(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments, and what a release did with them: the prompt that its model got, or its message without a request.

    {work} and {other} are directories, {handle} is a session in the first one. `model` is the one of the request if
    the arguments choose it; `plain` is a line of its text output.
    """

    argv: tuple[str, ...]
    stdin: str = ""
    exit_code: int = 0
    prompt: str | None = None
    model: str | None = None
    resumes: bool = False
    message: str | None = None
    plain: str | None = None

    @property
    def name(self) -> str:
        """A name for the test."""
        return " ".join(self.argv) + (" < stdin" if self.stdin else "")

    def filled(self, **slots: object) -> list[str]:
        """Return the arguments with directories and the session."""
        return [arg.format_map(slots) if re.search(r"\{(work|other|handle)\}", arg) else arg for arg in self.argv]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call did: its exit code and streams, and the model and the user's texts of its first request."""

    exit_code: int | None
    stdout: str
    stderr: str
    model: str | None
    texts: tuple[str, ...] | None

    def assert_is(self, vector: Vector) -> None:
        """Compare it with the recorded outcome."""
        assert self.exit_code == vector.exit_code, self
        assert (self.texts is None) == (vector.prompt is None), self
        if self.texts is not None:
            assert self.texts[-1].strip() == vector.prompt, self
            assert (REMEMBERED in map(str.strip, self.texts[:-1])) == vector.resumes, self
        if vector.model is not None:
            assert (self.model or "").rpartition("/")[2] == vector.model, self
        if vector.message is not None:
            assert vector.message in _lines(self.stderr), self
        if vector.plain is not None:
            assert vector.plain in _lines(self.stdout), self


@cache
def vectors() -> Mapping[str, list[Vector]]:
    """Return the vectors of each engine."""
    files = sorted(FOLDER.glob("*.yaml"))
    return {
        file.stem: convert(load.parse(file.read_text("utf-8"), file.name, ours=True).data, list[Vector])
        for file in files
    }


def run(contract: EngineContract, executable: Path, box: Sandbox, chosen: Iterable[Vector]) -> list[Outcome]:
    """Run an executable with each vector in a sandbox, after one turn whose session the vectors may name."""
    first = build.first_turn(contract, REMEMBERED, Mode.INTERACTIVE)
    began = _call(contract, executable, box, first.arguments, first.stdin or b"")
    session = read_turn(contract, Mode.AUTO, began.stdout, began.stderr, began.returncode).session
    assert session, began
    slots = {"work": box.work, "other": box.other, "handle": session.handle_value}
    outcomes = []
    for vector in chosen:
        before = len(box.backend.exchanges())
        ended = _call(contract, executable, box, vector.filled(**slots), vector.stdin.encode())
        requests = box.backend.exchanges()[before:]
        # some engines also ask for a title or for memories
        request = next((r for r in requests if not vector.prompt or vector.prompt in (r.user_texts or ("",))[-1]), None)
        outcomes.append(
            Outcome(
                ended.returncode,
                ended.stdout.decode(),
                ended.stderr.decode(),
                request.model if request else None,
                request.user_texts if request else None,
            )
        )
    return outcomes


def _call(
    contract: EngineContract, executable: Path, box: Sandbox, argv: Iterable[str], stdin: bytes
) -> "subprocess.CompletedProcess[bytes]":
    env = box.env(contract.hermetic, box.work)
    return subprocess.run(
        (executable, *argv), cwd=box.work, env=env, input=stdin, capture_output=True, timeout=120, check=False
    )


def _lines(output: str) -> list[str]:
    return [line.strip() for line in _COLOUR.sub("", output).splitlines()]
