"""What requests to the model show of the approval in force, whatever the argv says."""

import re
from collections.abc import Iterator

from turngate.contract import ApprovalSign, EngineContract
from turngate_probes.observe import Turn
from turngate_probes.stub_model import Exchange

MAX_SHOWN = 100


def acts_unasked(turn: Turn, contract: EngineContract) -> str | None:
    """Say what shows that the engine acts without asking; empty: what is shown is safe; None: nothing is shown."""
    found = [
        said for request in turn.requests or () for sign in contract.approval_signs for said in _read(sign, request)
    ]
    return max(found, key=len, default=None)


def _read(sign: ApprovalSign, request: Exchange) -> Iterator[str]:
    if sign.pattern is not None:
        for match in re.finditer(sign.pattern, request.body.decode("utf-8", "replace")):
            yield "" if match["value"] in sign.safe_values else match[0][:MAX_SHOWN]
    elif request.tools:
        yield ", ".join(tool for tool in request.tools if tool in sign.tools)
