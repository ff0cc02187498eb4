"""The modes and the model of a session in the Agent Client Protocol, and how a client sets them."""

from turngate import EngineContract
from turngate.contract.simulation import StickySimulation
from turngate_probes.simulate.sticky.inbox import Message


class Modes:
    """`current` is the mode in force, None if the engine has none; `answers`: setting one is answered with it."""

    def __init__(self, contract: EngineContract, simulation: StickySimulation, model: str) -> None:
        stances = [stance for stance in (contract.sticky.interactive, contract.sticky.auto) if stance]
        starts = [mode for mode in (simulation.starts_in, *(stance.mode for stance in stances)) if mode]
        named = {mode["id"]: {**mode} for mode in simulation.acp.modes}
        self._modes: dict[str, Message] = named | {
            mode: {"id": mode, "name": mode} for mode in starts if mode not in named
        }
        self.current = next(iter((*starts, *self._modes)), None)
        self.model = model
        self.answers = simulation.modes == "answer"
        self._has_mode_option = simulation.modes == "option" and bool(self._modes)
        self._has_model_option = contract.sticky.model == "session" and not self.answers

    def set(self, mode: object) -> bool:
        """Set the mode, and return whether there is such a mode."""
        if not isinstance(mode, str) or mode not in self._modes:
            return False
        self.current = mode
        return True

    def set_option(self, name: object, value: object) -> bool:
        """Set an option of the session, and return whether that was possible."""
        if name not in [option["id"] for option in self.options()] or not isinstance(value, str):
            return False
        if name == "mode":
            return self.set(value)
        self.model = value
        return True

    def described(self) -> Message:
        """Return the fields of a response that describe a session's modes and options."""
        options, modes = self.options(), list(self._modes.values())
        fields: Message = {"configOptions": options} if options else {}
        return fields | ({"modes": {"currentModeId": self.current, "availableModes": modes}} if modes else {})

    def options(self) -> list[Message]:
        """Return the options of a session, and their values."""
        options = []
        if self._has_mode_option:
            options.append(_option("mode", self.current, list(self._modes)))
        if self._has_model_option:
            options.append(_option("model", self.model, [self.model]))
        return options


def _option(name: str, value: str | None, values: list[str]) -> Message:
    choices = [{"value": value, "name": value} for value in values]
    return {
        "id": name, "name": name.title(), "category": name, "type": "select", "currentValue": value, "options": choices
    }  # fmt: skip
