import psutil
from msgspec.structs import replace

from tests.reference.server.transports.stage import ReceivedEvents, Stage, all_of_them, contract
from turngate.contract.launch import PermissionMode
from turngate_reference.server.transports.events import AgentText, Gone, Lost, Opened


@all_of_them
def test_three_turns_run_in_one_process(stage: Stage, transport: str) -> None:
    """The same process answers each turn, and a turn's texts are reported before its end."""
    received, opened = stage.opened(contract(transport))
    assert opened.started_at == psutil.Process(opened.pid).create_time()
    for number in (1, 2, 3):
        ended = stage.turn(received, "go on")
        assert ended.final_text == f"turn {number} of {opened.pid}"
        assert ended.failure is None
        assert not ended.declined
        assert "".join(event.text for event in received.past if isinstance(event, AgentText)) == ended.final_text
        received.past.clear()
    assert ended.session_id
    assert opened.session_id in (None, ended.session_id)


@all_of_them
def test_a_banner_is_passed_over(stage: Stage, transport: str) -> None:
    """Lines before the first message that aren't messages are ignored."""
    received, _ = stage.opened(contract(transport), faults="banner='Welcome! {not json\n[]\n7\n\n'")
    assert stage.turn(received, "go on").failure is None


@all_of_them
def test_a_failure_is_told_and_the_process_goes_on(stage: Stage, transport: str) -> None:
    """A failure reported by the engine ends the turn, and the next turn runs."""
    received, opened = stage.opened(contract(transport))
    assert "key refused" in (stage.turn(received, "do: fail").failure or "")
    assert stage.turn(received, "go on").final_text == f"turn 2 of {opened.pid}"


def test_a_model_and_options_reach_the_process(stage: Stage) -> None:
    """The model is passed where the contract says; an unknown option is rejected with a reason."""
    received = ReceivedEvents()
    known = contract("acp", approval=PermissionMode(mode="default"))
    request = stage.request(known)
    stage.host.open("run", replace(request, model="m-1"), received)
    opened = received.until(Opened)
    assert psutil.Process(opened.pid).cmdline()[-2:] == ["--model", "m-1"]
    assert opened.argv == ("--acp", "--model", "m-1")
    refused = ReceivedEvents()
    stage.host.open("other", replace(request, options=("--debug",)), refused)
    lost = refused.until(Lost)
    assert "--debug" in lost.detail
    assert lost.ours
    assert refused.until(Gone).exit_code is None
