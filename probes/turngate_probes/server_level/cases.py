"""What is done with an engine through the reference server: the good way, and the bad ones; one run and server each.

How a process is kept over several turns belongs here too, as cases of its own.
"""

from turngate_probes.harness.cases import ASK, FINAL, Case
from turngate_probes.harness.interrupt import CaseStoppedError
from turngate_probes.server_level.observed_turn import Prompt
from turngate_probes.server_level.server_run import TURN_LIMIT, ServerRun, server_case
from turngate_probes.stub_model import Hang, Refuse, Text, new_nonce

SCHEMA = {
    "type": "object",
    "required": ["colour"],
    "additionalProperties": False,
    "properties": {"colour": {"enum": ["red", "blue"]}},
}
# a question that asks nothing
MALFORMED = '{"outcome": "ask_user", "interaction": {"kind": "choose_one", "options": ["red", "blue"]}}'
REFUSED = 401
HANGS = "hang-401"
SHORT_LIMIT = 20  # seconds for an engine that never gives up, which a good one takes for a turn at the very most
RACERS = 10
REPEATS = 3


def _loop(visit: ServerRun) -> None:
    visit.create(ASK, output_schema=SCHEMA)
    visit.settle("asked")
    question = visit.question("question")
    visit.kill_and_open()
    visit.show("restarted")
    visit.question("question-again")
    visit.reply("reply", question, Prompt.of("blue", FINAL))
    visit.settle("ended")


def _dead_handle(visit: ServerRun) -> None:
    visit.create(ASK)
    visit.settle("asked")
    question = visit.question("question")
    visit.forget_sessions()
    visit.reply("reply", question, Prompt.of("blue", FINAL))
    visit.settle("ended")


def _missing_handle(visit: ServerRun) -> None:
    visit.create(ASK)
    visit.settle("ended")


def _engine_failure(visit: ServerRun) -> None:
    declared = {d.symptom for d in visit.lab.contract.deviations if d.clause == "backend.failure-told"}
    visit.create(Refuse(REFUSED), timeout=SHORT_LIMIT if HANGS in declared else TURN_LIMIT)
    visit.settle("ended")


def _bad_envelope(visit: ServerRun) -> None:
    visit.create(Text(MALFORMED))
    visit.settle("ended")


def _cancel(visit: ServerRun) -> None:
    visit.create(Hang())
    visit.until_asked()
    visit.cancel("cancel")
    visit.settle("ended")


def _one_reply(visit: ServerRun) -> None:
    visit.create(ASK)
    visit.settle("asked")
    visit.race("reply", visit.question("question"), [Prompt.of("blue", ASK) for _ in range(RACERS)])
    if visit.settle("asked-again").get("state") != "waiting_user":
        raise CaseStoppedError("after the first reply the run does not ask again", by_engine=True)
    again = Prompt.of("red", FINAL)
    visit.race("repeated", visit.question("question-again"), [again] * REPEATS, key=new_nonce())
    visit.settle("ended")


SERVER_CASES = tuple(
    Case(name, server_case(play, hide=name == "missing-handle"), steps, level="server")
    for name, play, steps in (
        ("loop", _loop, 2),
        ("one-reply", _one_reply, 3),
        ("dead-handle", _dead_handle, 1),
        ("missing-handle", _missing_handle, 1),
        ("engine-failure", _engine_failure, 1),
        ("bad-envelope", _bad_envelope, 1),
        ("cancel", _cancel, 1),
    )
)
