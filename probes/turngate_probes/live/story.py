"""What is said with the user's own account: a word to keep, and in the next turn the question for it."""

import secrets

from turngate import argv
from turngate.contract import EngineContract
from turngate.model import Mode
from turngate_probes.cases import Case
from turngate_probes.lab import Ask, Lab
from turngate_probes.stub_model import Text

CLAUSES = (
    "handle.present", "handle.place", "handle.shape", "resume.accepted", "resume.same-handle", "live.context-recalled",
)  # fmt: skip
FIRST = "Remember the word {word}. Use no tools. Answer with OK alone."
AGAIN = "Which word did I ask you to remember? Use no tools. Answer with that word alone."
TURNS = 2
TOKENS = 100  # both prompts with both answers, generously
SHOWN = "<session id>"


def story() -> Case:
    """Make the case, under the name that the checks look for."""
    return Case("main", _play, TURNS, level="live")


def planned(contract: EngineContract) -> tuple[tuple[str, ...], ...]:
    """Give the argv of both turns, with the prompts and a placeholder for the session id."""
    first = argv.start(contract, FIRST.format(word="<word>"), Mode.INTERACTIVE)
    again = argv.resume(contract, AGAIN, Mode.INTERACTIVE, SHOWN, check_shape=False)
    return tuple((contract.executable, *each.arguments) for each in (first, again))


def prompts() -> tuple[str, str]:
    """Give both prompts, for those that travel by standard input."""
    return FIRST.format(word="<word>"), AGAIN


def _play(lab: Lab) -> None:
    word = f"tg{secrets.token_hex(4)}"
    first = lab.start("first", Ask(FIRST.format(word=word), word, Text("")))
    lab.resume("again", first.session, Ask(AGAIN, "", Text(""), turn_index=2))
