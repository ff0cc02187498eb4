"""turngate: contracts for coding-agent CLIs, and functions that build, run and read their turns.

The names in `__all__`, here and in `turngate.history`, are the public API, which docs/python-api.md describes. Releases
follow semantic versioning: a minor release may add names, optional parameters, fields and members of enumerations; only
a major release removes or changes existing ones. Until 1.0.0 a minor release may do so too, and CHANGELOG.md says how
to adapt. Everything else, other submodules included, is internal and may change in any release.

Only `check_turn`, `converse`, `converse_async`, `end_tagged`, `engine_version`, `find_executable`, `play_turn`,
`process_request` (for its default environment), `run_turn` and `run_turn_async` access the machine. Everything else is
pure: it uses no process, clock or network.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from turngate.argv.build import Invocation, first_turn, resumed_turn
    from turngate.argv.environment import engine_environment, session_locations
    from turngate.argv.trust import Trust
    from turngate.contract.engine_contract import EngineContract
    from turngate.contract.load import engine_names, load_contract
    from turngate.errors import (
        ContractError,
        MachineError,
        NotCoveredError,
        NotFoundError,
        NotInstalledError,
        NoVersionError,
        RefusedError,
        ServerRefusedError,
        TurngateError,
        UsageError,
    )
    from turngate.model import (
        AdapterTurnResult,
        Ended,
        EngineSessionHandle,
        Failure,
        Interaction,
        Mode,
        Outcome,
        Repair,
        Reported,
    )
    from turngate.process.converse import Conversation, ConversationSetup, converse, converse_async
    from turngate.process.executable import engine_version, find_executable
    from turngate.process.execution import ProcessOutcome, ProcessRequest, Stop
    from turngate.process.turn_run import TurnRun, process_request, run_turn, run_turn_async
    from turngate.process.turn_values import TurnInput, TurnOutput, check_turn, end_tagged, not_started, play_turn
    from turngate.turn.mode_patch import mode_patch
    from turngate.turn.read import TurnReader, TurnReading, read_turn

    __version__: str

__all__ = [
    "AdapterTurnResult",
    "ContractError",
    "Conversation",
    "ConversationSetup",
    "Ended",
    "EngineContract",
    "EngineSessionHandle",
    "Failure",
    "Interaction",
    "Invocation",
    "MachineError",
    "Mode",
    "NoVersionError",
    "NotCoveredError",
    "NotFoundError",
    "NotInstalledError",
    "Outcome",
    "ProcessOutcome",
    "ProcessRequest",
    "RefusedError",
    "Repair",
    "Reported",
    "ServerRefusedError",
    "Stop",
    "Trust",
    "TurnInput",
    "TurnOutput",
    "TurnReader",
    "TurnReading",
    "TurnRun",
    "TurngateError",
    "UsageError",
    "check_turn",
    "converse",
    "converse_async",
    "end_tagged",
    "engine_environment",
    "engine_names",
    "engine_version",
    "find_executable",
    "first_turn",
    "load_contract",
    "mode_patch",
    "not_started",
    "play_turn",
    "process_request",
    "read_turn",
    "resumed_turn",
    "run_turn",
    "run_turn_async",
    "session_locations",
]

# modules are imported on first use, since importing all of them would slow every command down
_MODULES = {
    "argv.build": ("Invocation", "first_turn", "resumed_turn"),
    "argv.environment": ("engine_environment", "session_locations"),
    "argv.trust": ("Trust",),
    "contract.load": ("engine_names", "load_contract"),
    "contract.engine_contract": ("EngineContract",),
    "errors": (
        "ContractError",
        "MachineError",
        "NoVersionError",
        "NotCoveredError",
        "NotFoundError",
        "NotInstalledError",
        "RefusedError",
        "ServerRefusedError",
        "TurngateError",
        "UsageError",
    ),
    "model": (
        "AdapterTurnResult",
        "Ended",
        "EngineSessionHandle",
        "Failure",
        "Interaction",
        "Mode",
        "Outcome",
        "Repair",
        "Reported",
    ),
    "process.converse": ("Conversation", "ConversationSetup", "converse", "converse_async"),
    "process.executable": ("engine_version", "find_executable"),
    "process.execution": ("ProcessOutcome", "ProcessRequest", "Stop"),
    "process.turn_run": ("TurnRun", "process_request", "run_turn", "run_turn_async"),
    "process.turn_values": ("TurnInput", "TurnOutput", "check_turn", "end_tagged", "not_started", "play_turn"),
    "turn.mode_patch": ("mode_patch",),
    "turn.read": ("TurnReader", "TurnReading", "read_turn"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


if not TYPE_CHECKING:  # to a type checker, a module that has this function has every name

    def __getattr__(name: str) -> object:
        """Import a public name; AttributeError if it doesn't exist."""
        if name == "__version__":
            from importlib.metadata import version  # noqa: PLC0415 - slow to import, and asked for by few

            return version(__name__)
        if name not in _MODULE_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    """Return the public names."""
    return [*__all__]
