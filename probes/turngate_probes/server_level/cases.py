"""Cases of an engine behind the reference server: the good way and the bad ones, with one run and server each."""

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


def _loop(run: ServerRun) -> None:
    run.create(ASK, output_schema=SCHEMA)
    run.settle("asked")
    question = run.question("question")
    run.kill_and_open()
    run.show("restarted")
    run.question("question-again")
    run.reply("reply", question, Prompt.of("blue", FINAL))
    run.settle("ended")


def _dead_handle(run: ServerRun) -> None:
    run.create(ASK)
    run.settle("asked")
    question = run.question("question")
    run.forget_sessions()
    run.reply("reply", question, Prompt.of("blue", FINAL))
    run.settle("ended")


def _missing_handle(run: ServerRun) -> None:
    run.create(ASK)
    run.settle("ended")


def _engine_failure(run: ServerRun) -> None:
    declared = {d.symptom for d in run.driver.contract.deviations if d.clause == "backend.failure-told"}
    run.create(Refuse(REFUSED), timeout=SHORT_LIMIT if HANGS in declared else TURN_LIMIT)
    run.settle("ended")


def _bad_envelope(run: ServerRun) -> None:
    run.create(Text(MALFORMED))
    run.settle("ended")


def _cancel(run: ServerRun) -> None:
    run.create(Hang())
    run.until_asked()
    run.cancel("cancel")
    run.settle("ended")


def _one_reply(run: ServerRun) -> None:
    run.create(ASK)
    run.settle("asked")
    run.race("reply", run.question("question"), [Prompt.of("blue", ASK) for _ in range(RACERS)])
    if run.settle("asked-again").get("state") != "waiting_user":
        raise CaseStoppedError("after the first reply the run does not ask again", by_engine=True)
    again = Prompt.of("red", FINAL)
    run.race("repeated", run.question("question-again"), [again] * REPEATS, key=new_nonce())
    run.settle("ended")


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
