from tests.contracts.contract.small import SMALL, mistakes_in
from tests.tables import each

OPTIONS = "options:\n"
AUTO = "auto_flags:\n"


@each(
    "option, at, message",
    [
        ("--say, value: none, interactive: {EV}", "", ""),
        ("--say, value: required, interactive: {values: [a], EV}", "", ""),
        ("--say, value: required, interactive: {pattern: a+, EV}", "", ""),
        ("--say, value: many, interactive: {path: workspace, EV}", "", ""),
        ("--say, value: many, interactive: {keys: [{key: a.b, values: [c]}, {key: d, pattern: e+}], EV}", "", ""),
        ("--say, value: many, interactive: {keys: [{key: safe, pattern: .+}], EV}", "", ""),
        ("--mode, value: required, interactive: {values: [ask], EV}", "", ""),
        ("--set, value: many, interactive: {keys: [{key: ask, values: [always]}], EV}", "", ""),
        ("--say, value: none, interactive: {values: [a], EV}", ".values", "a switch takes no value"),
        ("--say, value: required, interactive: {EV}", "", "does not say which values are allowed"),
        ("--say, value: required, interactive: {values: [a], pattern: a, EV}", "", "has values and pattern"),
        ("--say, value: required, interactive: {values: [], EV}", ".values", "[] should be non-empty"),
        ("--say, value: required, interactive: {values: [a]}", "", "'evidence' is a required property"),
        ("--say, value: required, interactive: {path: anywhere, EV}", ".path", "'workspace' was expected"),
        ("--say, value: many, interactive: {keys: [{key: a}], EV}", ".keys[0]", "'values' is a required property"),
        ("--say, value: many, interactive: {keys: [{key: ' a', values: [b]}], EV}", ".keys[0].key", "does not match"),
        ("--say, value: none, interactive: {evidence: [{clause: none.such}]}", ".evidence[0]", "unknown clause"),
        ("--say, value: none, interactive: {evidence: [{recording: x}]}", ".evidence[0]", "a recording of"),
        ("--act, value: none, interactive: {EV}", "", "--act can let the engine act without asking"),
        ("--mode, value: required, interactive: {pattern: .*, EV}", "", "--mode can let the engine act"),
        ("--mode, value: required, interactive: {values: [ask, act], EV}", ".values[1]", "--mode act lets the engine"),
        (
            "--set, value: many, interactive: {keys: [{key: ask, values: [always, never]}], EV}",
            ".keys[0].values[1]",
            "--set ask=never lets the engine act without asking",
        ),
        (
            "--set, value: many, interactive: {keys: [{key: ask, pattern: .*}], EV}",
            ".keys[0].pattern",
            "--set ask=any lets the engine act without asking",
        ),
    ],
)
def test_what_is_allowed_in_interactive_is_checked(option: str, at: str, message: str) -> None:
    """An allowed use needs values and evidence, and must not let the engine act without asking."""
    flags = (
        "  - {flag: --act, unverified: true}\n  - {flag: --mode, safe_values: [ask], unverified: true}\n"
        "  - {flag: --set, keys: [{key: ask, safe_values: [always]}], unverified: true}\n"
    )
    option = option.replace("EV", "evidence: [{observed: seen}]")
    text = SMALL.replace(OPTIONS, f"{OPTIONS}  - {{flag: {option}, unverified: true}}\n").replace(AUTO, AUTO + flags)
    mistakes = mistakes_in(text)
    if not message:
        assert mistakes == []
        return
    assert [mistake.path for mistake in mistakes] == [f"$.options[0].interactive{at}"]
    assert message in mistakes[0].what
    assert mistakes[0].hint


def test_a_change_is_checked_with_the_releases_that_it_holds_for() -> None:
    """A flag that starts to widen at a release makes the use an error from there on, reported in that change."""
    option = (
        "  - flag: --say\n    value: required\n    interactive: {values: [a], evidence: [{observed: seen}]}\n"
        "    unverified: true\n    changes:\n"
        "      - {since: 0.150.0, set: {interactive: {values: [b], evidence: [{observed: seen}]}}, unverified: true}\n"
    )
    text = SMALL.replace(OPTIONS, OPTIONS + option)
    assert mistakes_in(text) == []
    widening = "  - {flag: --say, safe_values: [a], since: 0.150.0, unverified: true}\n"
    (mistake,) = mistakes_in(text.replace(AUTO, AUTO + widening))
    assert mistake.path == "$.options[0].changes[0].set.interactive.values[0]"
