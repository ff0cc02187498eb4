"""Whether the model and the effort that a caller asks for are in the requests."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from tests.probes import turns as t
from turngate.contract.hermetic import Effort
from turngate_probes.clauses.checks import SkippedError
from turngate_probes.harness.observations import NotObservedError, Turn

CLAUSE = "model.takes-effect"
EFFORT = Effort(("--effort", "low"), "reasoning.effort", "low")
CONTRACT = replace(t.CODEX, hermetic=replace(t.CODEX.hermetic, model="acme/asked", effort=EFFORT))


def asking(name: str, model: str = "asked", effort: str | None = "low", **more: Any) -> Turn:
    """Return a turn whose request names a model and an effort."""
    body = json.dumps({"reasoning": {"effort": effort} if effort else None}).encode()
    return t.turn(name, requests=(t.exchange(t.nonce(name), model=model, body=body), *more.pop("besides", ())), **more)


MAIN = asking("main/first", "default", "medium")
FIRST, AGAIN = asking("asked-model/first"), asking("asked-model/again", resumed=t.SESSION)


def test_the_requests_have_what_was_asked_for() -> None:
    """A model may be named without its provider; another one, or another effort, fails the clause on either turn."""
    finding = t.check(CLAUSE, MAIN, FIRST, AGAIN, contract=CONTRACT)
    assert (finding.ok, finding.evidence) == (True, ("asked-model/first", "asked-model/again"))
    for changed, symptom in (
        ({"model": "default"}, "model"),
        ({"effort": "medium"}, "effort"),
        ({"effort": None}, "effort"),
    ):
        for turns, name, when in (
            ((asking("asked-model/first", **changed), AGAIN), "first", ""),
            ((FIRST, asking("asked-model/again", resumed=t.SESSION, **changed)), "again", "-on-resume"),
        ):
            finding = t.check(CLAUSE, MAIN, *turns, contract=CONTRACT)
            assert (finding.ok, finding.symptoms) == (False, (f"{symptom}{when}",))
            assert finding.evidence == (f"asked-model/{name}",)


def test_a_request_for_a_title_may_go_to_another_model() -> None:
    """It offers no tools, or demands the one that takes the title; any other is part of the conversation."""

    def besides(tools: tuple[str, ...], body: bytes) -> Turn:
        other = t.exchange(t.nonce("asked-model/first"), model="small", tools=tools, body=body)
        return asking("asked-model/first", besides=(other,))

    forced = b'{"tool_choice": {"type": "function", "function": {"name": "title"}}}'
    for turn in (besides((), b"{}"), besides(("title",), forced)):
        assert t.check(CLAUSE, MAIN, turn, AGAIN, contract=CONTRACT).ok
    for body in (b'{"tool_choice": "auto"}', b"[]", b"{"):
        finding = t.check(CLAUSE, MAIN, besides(("shell",), body), AGAIN, contract=CONTRACT)
        assert finding.symptoms == ("model",)


def test_what_a_release_takes_by_itself_shows_nothing() -> None:
    """The model and the effort must differ from those of a turn without the options."""
    for main in (asking("main/first", "asked", None), asking("main/first", "default", "low")):
        with pytest.raises(NotObservedError, match="also in a request without the option"):
            t.check(CLAUSE, main, FIRST, AGAIN, contract=CONTRACT)
    passing = asking("main/first", "asked", None, own_arguments=("--model", "acme/asked"))
    assert t.check(CLAUSE, passing, FIRST, AGAIN, contract=CONTRACT).ok


def test_a_release_without_the_option_has_nothing_to_show() -> None:
    """Nor has a turn that sent no prompt, which is the engine's failure."""
    with pytest.raises(SkippedError, match="no option"):
        t.check(CLAUSE, contract=replace(CONTRACT, launch=replace(CONTRACT.launch, model=())))
    with pytest.raises(NotObservedError, match="not sent") as unseen:
        t.check(CLAUSE, MAIN, t.turn("asked-model/first", requests=()), AGAIN, contract=CONTRACT)
    assert unseen.value.obstacle.by_engine
    unchosen = replace(CONTRACT, hermetic=replace(CONTRACT.hermetic, effort=None))
    assert "no option chooses an effort" in t.check(CLAUSE, MAIN, FIRST, AGAIN, contract=unchosen).detail
