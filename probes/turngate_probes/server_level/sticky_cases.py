"""Cases of a sticky process on the reference server: its turns, and the three ways in which its wait ends."""

import time

from turngate_probes.harness.cases import ASK, FINAL, Case
from turngate_probes.server_level.cases import SERVER_CASES
from turngate_probes.server_level.observed_turn import Prompt
from turngate_probes.server_level.server_run import TURN_LIMIT
from turngate_probes.server_level.sticky_run import StickyServerRun, sticky_case

NO_OPTION = "perhaps"
SPARE, SPARE_TURNS = 8, 3  # seconds, and times what a turn took


def _kept(run: StickyServerRun) -> None:
    run.keep(ASK)
    run.waits("asked")
    question = run.question("question")
    run.note_turn("turn-1", 1, 0)
    call, second = run.driver.tool_call(), Prompt.of("blue", ASK)
    if call is None:
        run.reply("reply", question, second)
    else:
        run.act("reply", question, second, call)
        _decline(run)
    run.waits("asked-again")
    question = run.question("question-again")
    run.note_turn("turn-2", 2, 1)
    run.reply("reply-again", question, Prompt.of("red", FINAL))
    run.ends("ended")
    run.note_turn("turn-3", 3, 2)
    run.note_further_starts()


def _decline(run: StickyServerRun) -> None:
    """Answer what the engine asks before it acts, first by no option, then by the one that declines."""
    run.waits("acting")
    asked = run.asked("permission")
    if asked["kind"] != "risk_ack":
        return
    run.answer("no-option", asked["interaction_id"], NO_OPTION)
    run.show("unmoved")
    run.answer("declined", asked["interaction_id"], asked["options"][-1])


def _ends(run: StickyServerRun) -> None:
    """End three waits: by the death of the process, by their time, by the death of the server."""
    run.keep(ASK)
    began = time.monotonic()
    run.waits("killed-asked")
    turn_took = time.monotonic() - began
    run.kill_process()
    run.note_turn("killed", 1, 0, run.ends("killed-ended"))
    # the limit is that of the turn too, which must be over before it, on a busy machine as well
    run.keep(ASK, limit=min(int(SPARE + SPARE_TURNS * turn_took), TURN_LIMIT))
    run.waits("late-asked")
    run.ends("late-ended")
    run.note_turn("late", 1, 1)
    run.keep(ASK)
    run.waits("orphan-asked")
    run.kill_server()
    run.ends("orphan-ended")
    run.note_turn("orphan", 1, 2)


STICKY_CASES = tuple(
    Case(name, sticky_case(play), 3, waits=name == "sticky-ends", level="server")
    for name, play in (("sticky", _kept), ("sticky-ends", _ends))
)
# all that is done through the server
SERVED = (*SERVER_CASES, *STICKY_CASES)
