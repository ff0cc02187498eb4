import dataclasses
import json
import logging

import psutil
import pytest
from msgspec.structs import replace

from tests.fakes.sticky_engine import SESSION
from tests.reference.server.sticky.stage import Heard, Stage, contract
from turngate.model import Mode
from turngate_reference.server.sticky.events import AgentText, Gone, Lost, Opened

TRANSPORTS = ["acp", "app_server", "stream_json"]


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_three_turns_run_in_one_process(stage: Stage, transport: str) -> None:
    """Each turn is answered by the process that was opened, and its texts are told before its end."""
    heard, opened = stage.opened(contract(transport))
    assert opened.started_at == psutil.Process(opened.pid).create_time()
    for number in (1, 2, 3):
        ended = stage.turn(heard, "go on")
        assert ended.final_text == f"turn {number} of {opened.pid}"
        assert ended.failure is None
        assert not ended.declined
        assert "".join(each.text for each in heard.past if isinstance(each, AgentText)) == ended.final_text
        heard.past.clear()
    assert ended.session_id == ("s-1" if transport == "acp" else SESSION)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_banner_is_passed_over(stage: Stage, transport: str) -> None:
    """Lines that are no message, before the first one, change nothing."""
    heard = stage.open(contract(transport), flaws="banner")
    heard.until(Opened)
    assert stage.turn(heard, "go on").failure is None


def test_news_of_no_thread_ends_no_turn(stage: Stage) -> None:
    """A notification without a thread or a turn, before the turn has an id, is passed over."""
    heard = stage.open(contract("app_server"), flaws="news")
    heard.until(Opened)
    assert stage.turn(heard, "go on").failure is None


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_failure_is_told_and_the_process_goes_on(stage: Stage, transport: str) -> None:
    """What the engine says went wrong ends the turn, and the next one runs."""
    heard, opened = stage.opened(contract(transport))
    assert "key refused" in (stage.turn(heard, "fail").failure or "")
    assert stage.turn(heard, "go on").final_text == f"turn 2 of {opened.pid}"


@pytest.mark.parametrize("transport", ["acp", "app_server", "stream_json"])
def test_an_oversized_line_is_dropped(stage: Stage, transport: str) -> None:
    """A line of more than 8 MiB is no message, and the one after it is."""
    heard, opened = stage.opened(contract(transport))
    assert stage.turn(heard, "flood").final_text == f"turn 1 of {opened.pid}"


def test_the_traces_hold_both_directions(stage: Stage) -> None:
    """What was written and read is kept, in order, beside the run."""
    heard, _ = stage.opened(contract("acp"))
    stage.turn(heard, "go on")
    lines = (stage.folder / "run/protocol").read_text().splitlines()
    directions = [line.split()[1] for line in lines]
    assert directions[0] == ">"
    assert "<" in directions
    assert any('"go on"' in line for line in lines)


def test_a_model_and_options_reach_the_process(stage: Stage) -> None:
    """The model stands among the arguments where the contract says so; an unknown option is refused with a reason."""
    heard = Heard()
    known = contract("acp")
    known = replace(known, sticky=replace(known.sticky, argv=("acp", "{options}")))
    request = stage.request(known, "run", Mode.INTERACTIVE, {})
    stage.host.open("run", dataclasses.replace(request, model="m-1"), heard)
    opened = heard.until(Opened)
    assert psutil.Process(opened.pid).cmdline()[-2:] == ["--model", "m-1"]
    assert opened.argv == ("acp", "--model", "m-1")
    refused = Heard()
    stage.host.open("other", dataclasses.replace(request, options=("--debug",)), refused)
    lost = refused.until(Lost)
    assert "--debug" in lost.detail
    assert lost.ours
    assert refused.until(Gone).exit_code is None


@pytest.mark.parametrize(
    "flaws, told",
    [("one-model", "it offers no choice of a model"), ("", "it can't be confirmed that it is in force")],
)
def test_a_model_that_a_session_does_not_confirm_is_a_loss(stage: Stage, flaws: str, told: str) -> None:
    """An engine that would silently run on another model than the one asked for is ended before the first prompt."""
    assert f"asked for model m-1, {told}" in _with_session_model(stage, flaws).until(Lost).detail


def test_a_model_of_a_session_is_confirmed_by_the_answer(stage: Stage) -> None:
    """An engine whose answer names the model that was asked for runs its turns."""
    heard = _with_session_model(stage, "answers")
    heard.until(Opened)
    assert stage.turn(heard, "go on").failure is None


def _with_session_model(stage: Stage, flaws: str) -> Heard:
    """Open a process, asking its session for a model."""
    heard, known = Heard(), contract("acp")
    known = replace(known, sticky=replace(known.sticky, model="session"))
    request = stage.request(known, "run", Mode.INTERACTIVE, {"FAKE_FLAWS": flaws})
    stage.host.open("run", dataclasses.replace(request, model="m-1"), heard)
    return heard


def test_the_command_is_kept_and_logged(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """It stands among the traces with the release, and as a shell would read it in the log."""
    caplog.set_level(logging.DEBUG, "turngate_reference.server.sticky")
    known = contract("acp")
    known = replace(known, version="0.61.0", sticky=replace(known.sticky, argv=("acp", "two words")))
    stage.opened(known)
    told = json.loads((stage.folder / "run/command.json").read_text())
    assert told == {"argv": [str(stage.executable()), "acp", "two words"], "version": "0.61.0"}
    assert f"{stage.executable()} acp 'two words'" in caplog.text


def test_traces_that_can_not_be_kept_are_our_loss(stage: Stage) -> None:
    """The engine is not started, nor blamed."""
    (stage.folder / "run").touch()
    heard = stage.open(contract("acp"))
    assert heard.until(Lost).ours
