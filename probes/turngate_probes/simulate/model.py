"""The model of a simulated engine: asked until it says something, its tool calls acted on in between."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from turngate.contract.structs import EngineContract
from turngate_probes.simulate.backend import Answer, Backend, Called, Message, ModelRequest
from turngate_probes.simulate.described import simulation

MAX_CALLS = 20
OFFERED = "read_file"


@dataclass(frozen=True, slots=True)
class Acted:
    """What came of a tool call, in words for the model; `ends` tells that the turn is over with it."""

    result: str
    ends: bool = False


@dataclass(frozen=True, slots=True)
class Model:
    """A model by its name, and whether the engine acts without asking (`auto`), which its requests show."""

    contract: EngineContract
    backend: Backend
    name: str
    auto: bool
    tools: tuple[str, ...] = (OFFERED,)

    def ask(self, messages: list[Message], act: Callable[[Called], Acted]) -> Answer:
        """Return the model's last answer; tool calls and their results are added to `messages`.

        It is a call where the turn ended with that, or where the model never stops to call.
        """
        answer = self.backend(self._request(messages))
        for _ in range(MAX_CALLS):
            if not isinstance(answer, Called):
                break
            acted = act(answer)
            messages += [answer.message, {"role": "tool", "tool_call_id": answer.call_id, "content": acted.result}]
            if acted.ends:
                break
            answer = self.backend(self._request(messages))
        return answer

    def _request(self, messages: Sequence[Message]) -> ModelRequest:
        """Show on the wire what approval is in force, as far as the contract knows signs of it."""
        widened = [tool for sign in self.contract.approval_signs for tool in sign.tools] if self.auto else []
        described = simulation(self.contract)
        said = (described.system_prompt if described else {}).get("auto" if self.auto else "interactive")
        system = [{"role": "system", "content": said}] if said else []
        return ModelRequest(self.name, [*system, *messages], [*self.tools, *widened])
