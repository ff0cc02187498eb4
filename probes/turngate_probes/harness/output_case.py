"""The case in which a user has settings of display, output, telemetry, hooks and language, all at once.

A first turn and a resume have them, and variables that most programs read. They run in mode auto, in which more of a
user's settings is in force. If one of the two departs from what the contract says, each setting is tried by itself, so
that the culprit has a name. What shows that a setting is in force is observed in the same turns, except where it takes
a wrong value to show that it is read.
"""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from turngate import Ended, EngineContract, Mode
from turngate.contract.home_and_workspace import OutputSetting
from turngate_probes.harness.driver import ASK, FINAL, EngineDriver, UserSettings, ask
from turngate_probes.harness.observations import Turn
from turngate_probes.harness.settings_cases import groups
from turngate_probes.stub_model import StubBackend

ALL, ENVIRONMENT = "all", "environment"
# of the first turn, and of the resume
VARIABLES: tuple[Mapping[str, str], Mapping[str, str]] = (
    {"LANG": "de_DE.UTF-8", "FORCE_COLOR": "3", "CLICOLOR_FORCE": "1", "TERM": "xterm-256color", "COLUMNS": "40"},
    {"LANG": "C", "LC_ALL": "C", "NO_COLOR": "1", "CI": "true", "DEBUG": "*", "TERM": "xterm", "COLUMNS": "20"},
)
_NONE: tuple[Mapping[str, str], Mapping[str, str]] = ({}, {})


def any_settings(driver: EngineDriver) -> None:
    """Play a first turn and a resume with all settings, then what shows that the release reads the rest."""
    contract = driver.contract
    # a user's telemetry may go to the vendor
    driver.sandbox.backend.ignore_egress()
    for name, settings in together(contract).items():
        departed = _play(driver, name, settings, VARIABLES if name == ALL else _NONE)
        if departed and name == ALL:
            for setting in settings:
                _play(driver, only(setting.name), (setting,), _NONE)
            _play(driver, only(ENVIRONMENT), (), VARIABLES)
    for setting in contract.output_settings:
        if setting.shows.refused:
            wrong = replace(setting, files=setting.shows.refused, env={})
            _play(driver, refused(setting.name), (wrong,), _NONE, resumes=False)


def any_settings_turns(contract: EngineContract) -> int:
    """Return how many turns `any_settings` plans, without those that look for a culprit."""
    return 2 * len(together(contract)) + sum(bool(setting.shows.refused) for setting in contract.output_settings)


def together(contract: EngineContract) -> Mapping[str, tuple[OutputSetting, ...]]:
    """Return the settings that are in force in the same turns, by a name for these; one group has the variables."""
    return {ALL: (), **groups(contract.output_settings)}


def only(name: str) -> str:
    """Return the step in which a setting, or the variables, is tried by itself."""
    return f"only-{name}"


def refused(name: str) -> str:
    """Return the step in which the release gets a wrong value of a setting."""
    return f"wrong-{name}"


def departs(turn: Turn) -> str:
    """Say in what a turn departs from what the contract says of framing, id and end; empty if in nothing."""
    reading = turn.reading
    if turn.hung or (turn.ended is Ended.EXIT and turn.exit_code != 0):
        return f"it ended with exit code {turn.exit_code}" if not turn.hung else "it did not end"
    wrong = (
        *reading.framing,
        *(f"lines on {stream} end in CRLF" for stream in reading.crlf),
        reading.handle.detail if reading.session is None else "",
        reading.handle.displaced or "",
        *reading.failures,
        "" if reading.ended else "no terminal event",
        *(f"after its terminal event: {kind}" for kind in reading.after_end),
        "" if (reading.final_text or "").strip() == turn.scripted else "the answer is not the text of the model",
    )
    return next(filter(None, wrong), "")


def _play(
    driver: EngineDriver,
    step: str,
    settings: Sequence[OutputSetting],
    variables: tuple[Mapping[str, str], Mapping[str, str]],
    *,
    resumes: bool = True,
) -> bool:
    """Run the turns in a fresh home; return whether one departed from what the contract says."""
    with StubBackend() as collector:
        box, slots = driver.sandbox.nested(step, driver.contract.hermetic), {"collector": collector.url}
        box.offer_programs()
        for setting in settings:
            box.place(setting.files, **slots)
        env = {name: box.fill(value, **slots) for setting in settings for name, value in setting.env.items()}
        users = UserSettings(tuple(settings), collector)
        first, again = (driver.within(box, {**env, **more}) for more in variables)
        turns = [first.start(step, replace(ask(ASK, mode=Mode.AUTO), users=users))]
        if resumes and turns[0].session is not None:
            asked = replace(ask(FINAL, mode=Mode.AUTO, turn_index=2), users=users)
            turns.append(again.resume(f"{step}-again", turns[0].session, asked))
        return any(map(departs, turns))
