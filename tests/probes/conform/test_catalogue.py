"""Rules and scenarios fit together."""

import re
from pathlib import Path

from tests.drift.drifts import corpus
from tests.tables import each
from turngate import load_contract
from turngate_probes.conform.catalogue import in_process, obstacle, rules, scenarios
from turngate_probes.conform.outcome import UNASKED
from turngate_probes.releases import recorded_releases
from turngate_probes.simulate.faults import changed, listed, named

RECORDINGS = Path(__file__).parents[3] / "fixtures"
_ONLY_SOME = {"late-id", "long-line", "unknown-records", "prompt-200-kb", "exits-unread"}
_ONLY_SOME |= {"reconnects", "several-messages", "second-result", "own-turn", "late-text"}
ENGINES = ("claude", "codex", "gemini", "iflow", "opencode", "qwen")


def test_each_scenario_tests_a_rule() -> None:
    """The rule of each scenario exists, and names are unique."""
    assert {one.rule for one in scenarios().values()} <= set(rules())
    assert len(scenarios()) >= 30
    assert all(rule.id.startswith("orchestrator.") for rule in rules().values())


def test_each_misbehaviour_names_a_release_or_is_harmless() -> None:
    """A scenario whose engine does something names the release that did it; others are about encodings or timing."""
    unnamed = [one.id for one in scenarios().values() if one.plays and not one.observed]
    assert unnamed == [
        "two-conversations",
        "slow-answer",
        "slow-reply",
        "slow-turns",
        "text-imitates-envelope",
        "executable-gone",
        "canceled",
        "warning-inside",
        "split-characters",
        "byte-order-mark",
        "crlf",
    ]
    vague = [source.release for one in scenarios().values() for source in one.observed if "." not in source.release]
    assert all(re.fullmatch(r"in \w+ \d{4}, the report names none", release) for release in vague)


def test_each_recording_that_is_named_exists() -> None:
    """A source is a report, or a recording of a release."""
    named = [source for one in scenarios().values() for source in one.observed if source.see.startswith("recording ")]
    assert len(named) >= 5
    for source in named:
        folder = RECORDINGS / source.see.removeprefix("recording ")
        assert (folder / "recording.yaml").is_file(), source
        assert folder.relative_to(RECORDINGS).parts[0] == source.engine


def test_each_fault_of_a_turn_is_used() -> None:
    """No way for a turn to misbehave is only described: a scenario plays it for its caller, or a drift for a probe."""
    plays = (UNASKED, *(play for one in scenarios().values() for play in one.plays))
    used = {named(field) for play in plays for field in changed(play)}
    used |= {drift.fault.partition("=")[0] for drift in corpus() if drift.fault}
    assert {fault.name for fault in listed() if fault.by in ("turn", "scenario")} <= used


@each("engine", ENGINES)
def test_an_engine_plays_most_scenarios(engine: str) -> None:
    """What it can't play has a reason."""
    contract = load_contract(engine, recorded_releases.newest(engine))
    reasons = {one.id: why for one in scenarios().values() if (why := obstacle(one, contract))}
    assert set(reasons) <= _ONLY_SOME
    assert all(contract.title in why for why in reasons.values())


@each(
    "name, played",
    [
        ("two-turns", True),
        ("two-conversations", True),
        ("failing-backend", True),
        ("no-answer", True),
        ("text-imitates-records", True),
        ("hang-before-answer", True),
        ("hang-after-answer", True),
        ("ignores-sigterm", True),
        ("launcher", True),
        ("crash", True),
        ("lost-session", True),
        ("split-characters", True),
        ("long-line", True),
        ("heartbeat-hang", True),
        ("canceled", True),
        ("exit-1-after-answer", False),
        ("late-id", False),
        ("upgrade", False),
        ("reconnects", False),
        ("late-text", False),
    ],
)
def test_what_a_process_for_several_turns_plays(name: str, *, played: bool) -> None:
    """It plays all but what concerns the executable, an exit code, or an id in another place."""
    assert in_process(scenarios()[name], "app_server") is played


def test_text_follows_the_end_of_a_turn_only_where_a_response_ends_it() -> None:
    """In the other protocols, the end of a turn is the last message of the turn."""
    transports = ("acp", "app_server", "json_commands", "service", "stream_json")
    assert [one for one in transports if in_process(scenarios()["late-text"], one)] == ["acp"]


def test_a_process_whose_turns_name_no_session_plays_nothing_about_ids() -> None:
    """Its client could not notice."""
    played = [name for name, one in scenarios().items() if in_process(one, "json_commands")]
    assert {"fresh-session", "no-id"}.isdisjoint(played)
    assert {"lost-session", "crash"} <= set(played)
