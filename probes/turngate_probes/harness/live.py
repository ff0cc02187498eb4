"""Two turns with the user's own account: what is asked, and what will be run."""

import secrets

from turngate.argv import build
from turngate.contract.structs import EngineContract
from turngate.model import Mode
from turngate_probes.harness.cases import Case
from turngate_probes.harness.driver import Ask, EngineDriver
from turngate_probes.stub_model import Text

CLAUSES = (
    "handle.present", "handle.place", "handle.shape", "resume.accepted", "resume.same-handle", "live.context-recalled",
)  # fmt: skip
FIRST = "Remember the word {word}. Use no tools. Answer with OK alone."
AGAIN = "Which word did I ask you to remember? Use no tools. Answer with that word alone."
TURNS = 2
TOKENS = 100  # both prompts with both answers, generously
SHOWN = "<session id>"


def steps() -> Case:
    """Return the case, under the name that the checks look for."""
    return Case("main", _play, TURNS, level="live")


def planned(contract: EngineContract) -> tuple[tuple[str, ...], ...]:
    """Return the argv of both turns, with the prompts and a placeholder for the session id."""
    first = build.start(contract, FIRST.format(word="<word>"), Mode.INTERACTIVE)
    again = build.resume(contract, AGAIN, Mode.INTERACTIVE, SHOWN, check_shape=False)
    return tuple((contract.executable, *turn.arguments) for turn in (first, again))


def prompts() -> tuple[str, str]:
    """Return both prompts, for those that travel by standard input."""
    return FIRST.format(word="<word>"), AGAIN


def _play(lab: EngineDriver) -> None:
    word = f"tg{secrets.token_hex(4)}"
    first = lab.start("first", Ask(FIRST.format(word=word), word, Text("")))
    lab.resume("again", first.session, Ask(AGAIN, "", Text(""), turn_index=2))
