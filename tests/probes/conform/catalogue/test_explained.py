"""Rules and scenarios in words."""

from turngate_probes.conform.catalogue import listed, rules, scenarios, shown


def test_the_list_has_everything() -> None:
    """Each rule and each scenario has a line."""
    lines = listed().splitlines()
    sentences = {rule.id: rule.sentence for rule in rules().values()}
    sentences |= {scenario.id: scenario.sentence for scenario in scenarios().values()}
    for name, sentence in sentences.items():
        assert any(name in line and sentence in line for line in lines)


def test_a_scenario_is_explained() -> None:
    """What happens, why, what is expected, what the engine does, and where that was seen."""
    text = shown([scenarios()["hang-before-answer"]])
    assert "The second turn prints nothing and never ends." in text
    assert "COMMAND must exit with a code other than 0. Otherwise it breaks orchestrator.ends-hangs." in text
    assert "turn 2, in every attempt: hang=before" in text
    assert "observed: opencode 1.18.15 (anomalyco/opencode#42268)" in text
    assert shown(()).count("  expected: ") == len(scenarios())


def test_each_rule_that_a_scenario_may_break_is_named() -> None:
    """As the verdict names it: a success may break another one than the rest."""
    text = shown([scenarios()["exits-unread"]])
    assert "Otherwise it breaks orchestrator.notices-failure." in text
    assert f"orchestrator.survives-broken-pipe: {rules()['orchestrator.survives-broken-pipe'].sentence}" in text
