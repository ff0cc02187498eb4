"""From what a turn came to, to what becomes of its run: the outcome and error precedence of the design."""

import json
from dataclasses import dataclass
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError, best_match
from referencing import Registry
from referencing.exceptions import Unresolvable

from turngate.model import AdapterTurnResult, Interaction, Mode, Outcome
from turngate_reference.server.orchestrator import references
from turngate_reference.server.states import RunErrorCode, State

MAX_FINAL_DATA = 4 * 2**20


@dataclass(frozen=True, slots=True)
class Decision:
    """The state that a run goes to after a turn, with what belongs to it (`error`: {code, detail})."""

    state: State
    error: dict[str, str] | None = None
    final_data: Any = None
    interaction: Interaction | None = None


def decide(
    result: AdapterTurnResult, mode: Mode, *, canceled: bool, can_wait: bool, output_schema: dict[str, Any] | None
) -> Decision:
    """Decide; `can_wait` says whether the turn left something behind that a reply can reach."""
    if canceled:
        return Decision(State.CANCELED)
    if result.outcome is Outcome.ERROR:
        code, _, detail = (result.failure_reason or "").partition(": ")
        return failed(RunErrorCode(code), detail)
    if result.interaction is not None:
        return _asked(result.interaction, mode, can_wait=can_wait)
    if flaw := _flaw(result.final_data, output_schema):
        return failed(RunErrorCode.FINAL_DATA_INVALID, flaw)
    return Decision(State.SUCCEEDED, final_data=result.final_data)


def failed(code: RunErrorCode, detail: str) -> Decision:
    """Fail a run."""
    return Decision(State.FAILED, error={"code": code.value, "detail": detail})


def check_output_schema(schema: dict[str, Any]) -> str | None:
    """Return what is wrong with an output schema; None: nothing. References may only lead inside the schema."""
    try:
        Draft202012Validator.check_schema(schema)
        if found := references.flaw(schema):
            return found
        _validator(schema).is_valid({})
    except SchemaError as wrong:
        return f"{wrong.json_path}: {wrong.message[:500]}"
    except Unresolvable as lost:
        return f"a reference that leads outside, or nowhere: {str(lost)[:200]}"
    except RecursionError:
        return "it refers to itself without end"
    except Exception as odd:  # noqa: BLE001 - a caller's schema reaches corners of the library that raise anything
        return f"it can't be used: {type(odd).__name__}: {str(odd)[:200]}"
    return None


def _asked(interaction: Interaction, mode: Mode, *, can_wait: bool) -> Decision:
    if mode is Mode.AUTO:
        return failed(RunErrorCode.ASK_USER_IN_AUTO, f"the agent asked in mode auto: {interaction.prompt[:500]}")
    if not can_wait:
        return failed(RunErrorCode.INTERACTION_PROCESS_LOST, "the agent asked, but its process does not wait")
    return Decision(State.WAITING_USER, interaction=interaction)


def _flaw(final_data: Any, schema: dict[str, Any] | None) -> str | None:
    size = len(json.dumps(final_data))
    if size > MAX_FINAL_DATA:
        return f"final_data of {size} bytes; {MAX_FINAL_DATA} are kept at most"
    if schema is None:
        return None
    try:
        wrong: ValidationError | None = best_match(_validator(schema).iter_errors(final_data))
    except (Unresolvable, RecursionError) as lost:
        return f"the output schema can't be applied: {str(lost)[:200]}"
    return f"{wrong.json_path}: {wrong.message[:500]}" if wrong else None


def _validator(schema: dict[str, Any]) -> Draft202012Validator:
    # an empty registry: nothing is fetched from anywhere
    return Draft202012Validator(schema, registry=Registry())
