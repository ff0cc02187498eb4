"""Turns in the user's own environment, and what is said in them; nothing secret is kept."""

import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from turngate.argv import build
from turngate.contract.structs import EngineContract, Hermetic
from turngate.errors import TurngateError
from turngate.model import Mode
from turngate.process import ProcessOutcome
from turngate_probes.harness.cases import Case
from turngate_probes.harness.driver import Ask, EngineDriver
from turngate_probes.harness.interrupt import CaseStoppedError
from turngate_probes.harness.observations import Observation, Turn
from turngate_probes.harness.runner import CaseRunner, Observer
from turngate_probes.harness.sandbox import Sandbox
from turngate_probes.stub_model import StubBackend, Text

HIDDEN = "<secret>"
SHORTEST = 6
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH|COOKIE", re.IGNORECASE)


class LiveSandbox(Sandbox):
    """An empty directory to work in; home and environment are the user's."""

    def env(self, hermetic: Hermetic, cwd: Path) -> dict[str, str]:  # noqa: ARG002 - as the lab calls it
        """Return the user's own environment."""
        return {**os.environ, "PWD": str(cwd)}

    def places(self) -> Mapping[str, str]:
        """Map the user's paths and secrets to placeholders."""
        return {**super().places(), **dict.fromkeys(secrets_of(os.environ), HIDDEN), str(Path.home()): "<home>"}


class LiveDriver(EngineDriver):
    """Runs turns as the user would, and hides the user's secrets in what they print."""

    def start(self, step: str, ask: Ask) -> Turn:
        """Run a first turn, with the user's own model."""
        return self._turn(step, ask, build.start(self.contract, ask.prompt, ask.mode), None)

    def resume(self, step: str, session: str | None, ask: Ask) -> Turn:
        """Run a resumed turn, with the user's own model; CaseStoppedError if there is no session to resume."""
        if session is None:
            raise CaseStoppedError("the turn before reported no session id", by_engine=True)
        return self._turn(step, ask, build.resume(self.contract, ask.prompt, ask.mode, session), session)

    def _run(self, *args: Any, **kwargs: Any) -> ProcessOutcome:
        done = super()._run(*args, **kwargs)
        stdout, stderr = (hidden(each, os.environ) for each in (done.stdout, done.stderr))
        return msgspec.structs.replace(done, stdout=stdout, stderr=stderr)


@dataclass(frozen=True, slots=True)
class LiveRunner(CaseRunner):
    """A stage on which turns meet the real model."""

    def play(self, contract: EngineContract, executable: Path, cases: Sequence[Case], audience: Observer) -> None:
        """Play the cases one after the other."""
        for case in cases:
            self._live(contract, executable, case, audience)

    def _live(self, contract: EngineContract, executable: Path, case: Case, audience: Observer) -> None:
        why = None
        self.sandboxes.mkdir(parents=True, exist_ok=True)
        root = Path(tempfile.mkdtemp(prefix="live-", dir=self.sandboxes))
        try:
            with StubBackend() as unused:
                box = LiveSandbox(root, unused, unused.url)
                box.work.mkdir()

                def note(item: Observation) -> None:
                    # nobody watched what the real model was sent
                    audience.saw(replace(item, requests=None) if isinstance(item, Turn) else item, box)

                case.play(
                    LiveDriver(
                        case.name, contract, executable, box, slot=lambda: self.busy.held(0),
                        interrupt=self.interrupt, note=note,
                    )
                )  # fmt: skip
        except (CaseStoppedError, TurngateError) as stopped:
            why = self.interrupt.why(stopped)
        finally:
            shutil.rmtree(root, ignore_errors=True)
        audience.ended(case, why, set())


def secrets_of(environ: Mapping[str, str]) -> list[str]:
    """Return the values of variables that may hold a secret, by their names."""
    return [value for name, value in environ.items() if _SECRET.search(name) and len(value) >= SHORTEST]


def hidden(data: bytes, environ: Mapping[str, str]) -> bytes:
    """Take the user's secrets out of what an engine printed."""
    for value in sorted(map(os.fsencode, secrets_of(environ)), key=len, reverse=True):
        data = data.replace(value, HIDDEN.encode())
    return data


CLAUSES = (
    "handle.present", "handle.place", "handle.shape", "resume.accepted", "resume.same-handle", "live.context-recalled",
)  # fmt: skip
FIRST = "Remember the word {word}. Use no tools. Answer with OK alone."
AGAIN = "Which word did I ask you to remember? Use no tools. Answer with that word alone."
TURNS = 2
TOKENS = 100  # both prompts with both answers, generously
SHOWN = "<session id>"


def steps() -> Case:
    """Make the case, under the name that the checks look for."""
    return Case("main", _play, TURNS, level="live")


def planned(contract: EngineContract) -> tuple[tuple[str, ...], ...]:
    """Return the argv of both turns, with the prompts and a placeholder for the session id."""
    first = build.start(contract, FIRST.format(word="<word>"), Mode.INTERACTIVE)
    again = build.resume(contract, AGAIN, Mode.INTERACTIVE, SHOWN, check_shape=False)
    return tuple((contract.executable, *each.arguments) for each in (first, again))


def prompts() -> tuple[str, str]:
    """Return both prompts, for those that travel by standard input."""
    return FIRST.format(word="<word>"), AGAIN


def _play(lab: EngineDriver) -> None:
    word = f"tg{secrets.token_hex(4)}"
    first = lab.start("first", Ask(FIRST.format(word=word), word, Text("")))
    lab.resume("again", first.session, Ask(AGAIN, "", Text(""), turn_index=2))
