"""What ACP agents say that they can do."""

import json

from turngate_probes.journal.acp_answers import MOST, answers


def line(method: str, result: object) -> str:
    """Return an answer."""
    return json.dumps({"method": method, "result": result})


def test_capabilities_and_offers_are_read_by_their_ids() -> None:
    """What the session alone has, what is said to people, and what depends on the model is no part of them."""
    can = {"protocolVersion": 1, "agentCapabilities": {"loadSession": True, "close": {}}, "agentInfo": {"version": "1"}}
    modes = {"availableModes": [{"id": "plan", "name": "Plan"}, {"name": "x"}], "currentModeId": "plan"}
    options = [{"id": name, "category": name, "options": [{"value": "a", "name": "A"}]} for name in ("mode", "model")]
    offers = {"sessionId": "s", "modes": modes, "configOptions": options, "words": ["a", "b"], "models": modes}
    text = "\n".join(("no JSON", "[1]", line("initialize", can), line("session/new", offers)))
    assert answers(text) == {
        "response to initialize": "",
        "response to initialize: agentCapabilities.close": "",
        "response to initialize: agentCapabilities.loadSession": "true",
        "response to initialize: protocolVersion": "1",
        "response to session/new": "",
        "response to session/new: configOptions.mode.category": "mode",
        "response to session/new: configOptions.mode.options.a": "",
        "response to session/new: modes.availableModes.plan": "",
        "response to session/new: modes.currentModeId": "plan",
        "response to session/new: words": "a|b",
    }


def test_more_than_can_be_kept_is_not_kept_in_part() -> None:
    """The rest would be shown as gone; what is nested too deeply ends."""
    assert answers(line("initialize", {f"m{number}": 1 for number in range(MOST)})) == {}
    deep: object = 1
    for _ in range(100):
        deep = {"a": deep}
    assert answers(line("initialize", deep)) == {"response to initialize": ""}
