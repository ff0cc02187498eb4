"""Checks whether the model gets the request that a caller wants it to get."""

import json
from contextlib import suppress

from turngate import EngineContract
from turngate.contract.clauses import Reason
from turngate.contract.verdict import Finding
from turngate.turn.records import value_at
from turngate_probes.clauses.checks import SkippedError, check, fail_if, passed
from turngate_probes.clauses.stream import RESUMABLE
from turngate_probes.harness.observations import NotObservedError, Observations, Turn
from turngate_probes.stub_model import Exchange


@check("model.takes-effect", "main", "asked-model", blames=RESUMABLE)
def takes_effect(observed: Observations) -> Finding:
    """Every request that has the prompt and offers tools named the model, and one had the effort."""
    contract = observed.contract
    if not contract.launch.model:
        raise SkippedError("the contract names no option that chooses a model")
    asked, effort = contract.hermetic.model, contract.hermetic.effort
    turns = [observed.turn(f"asked-model/{step}") for step in ("first", "again")]
    for turn in turns:
        requests = _of_conversation(turn)
        if not requests:
            raise NotObservedError(f"in {turn.name} the prompt was not sent to the model", by_engine=True)
        others = {str(request.model) for request in requests if not _is(asked, request.model)}
        what = f"{asked} was asked for, and the request is for {', '.join(sorted(others))}"
        fail_if(others, what, turn, symptom="model-on-resume" if turn.resumed else "model")
        if effort:
            found = [_value(request, effort.field) for request in requests]
            what = f"{effort.field} should be {effort.value}, and is {found[0]}"
            fail_if(effort.value not in found, what, turn, symptom="effort-on-resume" if turn.resumed else "effort")
    _check_default(observed.turn("main/first"), contract)
    chosen = f"{asked} and {effort.field} {effort.value}" if effort else f"{asked}; no option chooses an effort"
    return passed(f"the requests ask for {chosen}", *turns)


def _of_conversation(turn: Turn) -> tuple[Exchange, ...]:
    """Return the requests with the prompt in which the model may call tools, as it may not where it chooses a title."""
    return tuple(request for request in turn.sent() if request.tools and request.may_call) or turn.sent()


def _check_default(turn: Turn, contract: EngineContract) -> None:
    """Check that a turn without the options asks for something else; one with the model says nothing about that."""
    asked, effort, requests = contract.hermetic.model, contract.hermetic.effort, _of_conversation(turn)
    alike = [] if asked in turn.own_arguments else [asked for request in requests if _is(asked, request.model)]
    alike += [effort.value for request in requests if effort and _value(request, effort.field) == effort.value]
    if alike:
        raise NotObservedError(f"{alike[0]} is also in a request without the option", Reason.CONTRACT)


def _is(asked: str, model: str | None) -> bool:
    """Return whether a request is for the model; its name may be that after a provider's."""
    return model is not None and (asked == model or asked.endswith(f"/{model}"))


def _value(request: Exchange, path: str) -> object:
    """Return what is at a dotted path of a request; None if nothing is."""
    with suppress(ValueError, RecursionError):
        return value_at(json.loads(request.body), path)
    return None
