"""Whether a user's settings leave framing, id, answer and end where they are, and whether they were in force."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.probes import turns as t
from turngate.contract.home_and_workspace import OutputSetting, SettingSign, SetupFile
from turngate_probes.clauses.checks import SkippedError
from turngate_probes.harness.driver import QUESTION
from turngate_probes.harness.observations import NotObservedError, Turn
from turngate_probes.harness.output_case import any_settings_turns

CLAUSE = "output.any-settings"
FILES = (SetupFile("{home}/x", "y"),)
STARTED = SettingSign(started=True)
SETTINGS = (
    OutputSetting("theme", "display", SettingSign(refused=FILES), FILES),
    OutputSetting("hook", "hooks", STARTED, FILES),
)
CONTRACT = replace(t.CODEX, output_settings=SETTINGS)
COLOURED = b"\x1b[36m" + t.printed()


def played(*more: Turn, in_force: tuple[str, ...] = ("hook",), **changed: Any) -> dict[str, Turn]:
    """Return the turns of the case; `changed` are those of the first turn."""
    turns = (
        t.turn("any-settings/all", in_force=in_force, **changed),
        t.resumed("any-settings/all-again", in_force=in_force),
        t.refused("any-settings/wrong-theme"),
        *more,
    )
    return {turn.name: turn for turn in turns}


def test_settings_in_force_that_change_nothing_pass() -> None:
    """A hook that started, and a wrong value that ended the release before a request, show that they are read."""
    finding = t.check(CLAUSE, *played().values(), contract=CONTRACT)
    assert (finding.ok, "theme, hook, which are in force" in finding.detail) == (True, True)
    assert any_settings_turns(CONTRACT) == 3


def test_settings_without_effect_are_unproven() -> None:
    """They are named, and if none is in force, nothing is shown."""
    ignored = t.turn("any-settings/wrong-theme")
    finding = t.check(CLAUSE, *(played() | {ignored.name: ignored}).values(), contract=CONTRACT)
    assert (finding.ok, finding.detail.endswith("unproven: theme")) == (True, True)
    with pytest.raises(NotObservedError, match="nothing shows that theme, hook is in force"):
        t.check(CLAUSE, *(played(in_force=()) | {ignored.name: ignored}).values(), contract=CONTRACT)
    with pytest.raises(SkippedError, match="names no setting"):
        t.check(CLAUSE, *played().values(), contract=replace(CONTRACT, output_settings=()))


DEPARTURES = {
    "a colour": t.turn("any-settings/all", COLOURED),
    "no id": t.turn("any-settings/all", t.printed(session=None)),
    "another text": t.turn("any-settings/all", t.printed(text=f"Thinking about {QUESTION}")),
    "no end": t.turn("any-settings/all", t.printed(text=None)),
    "line ends": t.turn("any-settings/all", t.printed().replace(b"\n", b"\r\n")),
    "an exit code": t.turn("any-settings/all", exit_code=1),
    "a hang": t.hung("any-settings/all"),
}


@pytest.mark.parametrize("departure", DEPARTURES)
def test_a_departure_fails_and_names_its_culprits(departure: str) -> None:
    """Each setting that departs by itself gives its kind as a symptom; without one, no deviation can excuse it."""
    turn = DEPARTURES[departure]
    finding = t.check(CLAUSE, *(played() | {turn.name: turn}).values(), contract=CONTRACT)
    assert (finding.ok, finding.symptoms, finding.evidence) == (False, (), (turn.name,))
    alone = [replace(turn, name=f"any-settings/only-{name}") for name in ("hook", "environment")]
    finding = t.check(CLAUSE, *(played(*alone) | {turn.name: turn}).values(), contract=CONTRACT)
    assert (finding.ok, finding.symptoms) == (False, ("environment", "hooks"))
    assert finding.evidence == tuple(turn.name for turn in alone)


def test_a_setting_that_is_tried_alone_is_its_own_culprit() -> None:
    """What a contract declares of it is a deviation, while the others pass."""
    contract = replace(
        CONTRACT, output_settings=(*SETTINGS, OutputSetting("log", "telemetry", STARTED, FILES, alone=True))
    )
    alone = (t.turn("any-settings/log", COLOURED), t.resumed("any-settings/log-again"))
    finding = t.check(CLAUSE, *played(*alone).values(), contract=contract)
    assert (finding.ok, finding.symptoms, finding.evidence) == (False, ("telemetry",), ("any-settings/log",))


def test_a_missing_turn_is_not_observed() -> None:
    """Nor is a resume without which nothing is known of mode interactive."""
    turns = played()
    del turns["any-settings/all-again"]
    with pytest.raises(NotObservedError, match="all-again was not observed"):
        t.check(CLAUSE, *turns.values(), contract=CONTRACT)
