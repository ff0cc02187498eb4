"""The case with a user's settings: what departs, and that each setting is tried by itself only then."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.probes import engines
from tests.probes import turns as t
from turngate.contract.home_and_workspace import OutputSetting, SettingSign
from turngate_probes.harness import output_case
from turngate_probes.harness.cases import Case
from turngate_probes.harness.interrupt import Interrupt
from turngate_probes.harness.observations import Observations, Turn
from turngate_probes.harness.runner import CaseRunner
from turngate_probes.simulate import simulated_process

# a simulated engine has the settings of its own contract
SETTINGS = (
    *(setting for setting in t.CODEX.output_settings if setting.name in ("notify", "otel")),
    OutputSetting("alone", "display", SettingSign(written="{home}/absent"), env={"ACME": "1"}, alone=True),
)
CONTRACT = replace(t.CODEX, output_settings=SETTINGS)
CASE = Case("any-settings", output_case.any_settings, output_case.any_settings_turns, opens=True)


def played(folder: Path, *faults: str) -> Observations:
    """Play the case on a simulated engine."""
    executable = simulated_process.install(CONTRACT, folder / "engine", faults)
    spectator = engines.Spectator(CONTRACT)
    CaseRunner.of(folder / "sandboxes", 1, Interrupt()).play(CONTRACT, executable, [CASE], spectator)
    return spectator.observed


@pytest.mark.long
def test_settings_are_tried_together(tmp_path: Path) -> None:
    """One first turn and one resume have them all, and what shows is in force; one that is alone has its own turns."""
    turns = played(tmp_path).turns
    assert {name.partition("/")[2] for name in turns} == {"all", "all-again", "alone", "alone-again"}
    assert {turn.in_force for turn in turns.values()} == {("notify", "otel"), ()}
    assert not any(map(output_case.departs, turns.values()))
    assert [turn.mode for name, turn in turns.items() if name.endswith("all")] == ["auto"]
    assert {"FORCE_COLOR", "COLUMNS"} <= {*turns["any-settings/all"].env}
    assert {"NO_COLOR", "DEBUG"} <= {*turns["any-settings/all-again"].env}


@pytest.mark.long
def test_a_departure_is_traced_to_what_causes_it(tmp_path: Path) -> None:
    """Each setting is then tried by itself, and so are the variables."""
    turns = played(tmp_path, "colours").turns
    assert {name.partition("/")[2] for name in turns if "only-" in name and not name.endswith("-again")} == {
        "only-notify",
        "only-otel",
        "only-environment",
    }
    departing = [name.partition("/")[2] for name, turn in turns.items() if output_case.departs(turn)]
    assert departing == ["all", "only-environment"]


@pytest.mark.parametrize(
    "turn, what",
    [
        (t.turn("a/b"), ""),
        (t.turn("a/b", t.printed(failure="no quota")), "no quota"),
        (t.turn("a/b", exit_code=3), "exit code 3"),
        (t.hung("a/b"), "did not end"),
        (t.turn("a/b", b"\x1b[36m" + t.printed()), "JSON"),
    ],
)
def test_what_departs_is_said(turn: Turn, what: str) -> None:
    """The first thing that isn't as the contract says; empty if all is."""
    said = output_case.departs(turn)
    assert (what in said, bool(said)) == (True, bool(what))
