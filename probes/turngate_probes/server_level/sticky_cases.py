"""What is done with an engine whose process the reference server keeps: the good way, and how such a process ends."""

import time

from turngate_probes.harness.cases import ASK, FINAL, Case
from turngate_probes.server_level.cases import SERVER_CASES
from turngate_probes.server_level.observed_turn import Prompt
from turngate_probes.server_level.server_run import TURN_LIMIT
from turngate_probes.server_level.sticky_run import StickyServerRun, sticky_case

NO_OPTION = "perhaps"
SPARE, SPARE_TURNS = 8, 3  # seconds, and times what a turn took


def _kept(stay: StickyServerRun) -> None:
    stay.keep(ASK)
    stay.waits("asked")
    question = stay.question("question")
    stay.note_turn("turn-1", 1, 0)
    call, second = stay.lab.tool_call(), Prompt.of("blue", ASK)
    if call is None:
        stay.reply("reply", question, second)
    else:
        stay.act("reply", question, second, call)
        _decline(stay)
    stay.waits("asked-again")
    question = stay.question("question-again")
    stay.note_turn("turn-2", 2, 1)
    stay.reply("reply-again", question, Prompt.of("red", FINAL))
    stay.ends("ended")
    stay.note_turn("turn-3", 3, 2)
    stay.note_further_starts()


def _decline(stay: StickyServerRun) -> None:
    """Answer what the engine asks before it acts, first by no option, then by the one that declines."""
    stay.waits("acting")
    asked = stay.asked("permission")
    if asked["kind"] != "risk_ack":
        return
    stay.say("no-option", asked["interaction_id"], NO_OPTION)
    stay.show("unmoved")
    stay.say("declined", asked["interaction_id"], asked["options"][-1])


def _ends(stay: StickyServerRun) -> None:
    """End three waits: by the death of the process, by their time, by the death of the server."""
    stay.keep(ASK)
    began = time.monotonic()
    stay.waits("killed-asked")
    turn_took = time.monotonic() - began
    stay.kill_process()
    stay.note_turn("killed", 1, 0, stay.ends("killed-ended"))
    # the limit is that of the turn too, which must be over before it, on a busy machine as well
    stay.keep(ASK, limit=min(int(SPARE + SPARE_TURNS * turn_took), TURN_LIMIT))
    stay.waits("late-asked")
    stay.ends("late-ended")
    stay.note_turn("late", 1, 1)
    stay.keep(ASK)
    stay.waits("orphan-asked")
    stay.kill_server()
    stay.ends("orphan-ended")
    stay.note_turn("orphan", 1, 2)


STICKY_CASES = tuple(
    Case(name, sticky_case(play), 3, waits=name == "sticky-ends", level="server")
    for name, play in (("sticky", _kept), ("sticky-ends", _ends))
)
# all that is done through the server
SERVED = (*SERVER_CASES, *STICKY_CASES)
