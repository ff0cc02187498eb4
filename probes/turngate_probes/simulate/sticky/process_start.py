"""What the arguments of a sticky process ask for, and what it does before it acts."""

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from turngate import EngineContract
from turngate.argv.file_slot import SLOT
from turngate.contract.launch import PermissionMode, Sticky
from turngate_probes.simulate import arguments
from turngate_probes.simulate.printing import simulation

Approval = Literal["ask", "act", "refuse"]


def approval(
    sticky: Sticky,
    options: Sequence[str],
    env: Mapping[str, str],
    mode: str | None,
    fields: Mapping[str, Any],
    approval_env: Collection[str] | None = None,
    guards: Collection[str] = (),
) -> Approval:
    """Return what it does before it acts: it asks if the contract's conditions for mode interactive hold.

    Of its variables, only those in `approval_env` count if that is given; these make it ask in every mode. Without the
    options that name who approves, which are those of mode auto without the guards, it refuses.
    """
    interactive, auto = sticky.interactive, sticky.auto
    if interactive is None:
        return "act"
    approvers = [word for word in auto.options if word not in guards] if auto else []
    if not contains(options, approvers):
        return "refuse"
    named = (*options, *env.values())
    if not all(any(word.endswith(f"/{name}") for word in named) for name in interactive.files):
        return "act"
    needed = {name: value for name, value in interactive.env.items() if approval_env is None or name in approval_env}
    by_env = all(_holds(env.get(name, ""), value) for name, value in needed.items())
    asks = in_force(sticky, fields) is not sticky.auto
    in_mode = mode == interactive.mode or bool(approval_env)
    return "ask" if by_env and in_mode and asks else "act"


def in_force(sticky: Sticky, fields: Mapping[str, Any]) -> PermissionMode:
    """Return the permission mode in force: that of mode auto if its own fields opened the session, else interactive.

    Fields that mode interactive also has, such as a sandbox, don't tell it from that.
    """
    usual, auto = sticky.interactive or PermissionMode(), sticky.auto or PermissionMode()
    own = {name: value for name, value in auto.session.items() if usual.session.get(name) != value}
    return auto if own and own.items() <= fields.items() else usual


def _holds(value: str, wanted: str) -> bool:
    """Whether a variable has the value that the contract wants, in whatever folder its files are."""
    before, slot, after = wanted.partition(SLOT)
    return value == wanted or bool(slot and value.startswith(before) and value.endswith(after))


def contains(words: Sequence[str], wanted: Sequence[str]) -> bool:
    """Whether the words contain others one after the other."""
    width = len(wanted)
    return any(tuple(words[at : at + width]) == tuple(wanted) for at in range(len(words) - width + 1))


class ProcessStart(Struct, frozen=True):
    """How a sticky process was started: its transport, its options and the model.

    `resume` is the id of the session to resume, or `by_order` the option that chooses the last one; `session` is the id
    of a new one, in which a resumed one goes on if it `forks`. `mode` is the permission mode. `forgotten` are the
    options that a session forgets which another process resumes; None: they aren't known, since its client can also say
    it otherwise.
    """

    transport: str
    options: Sequence[str]
    model: str
    resume: str | None = None
    session: str | None = None
    mode: str | None = None
    by_order: str = ""
    forks: bool = False
    is_kept: bool = True
    forgotten: tuple[str, ...] | None = None


def starts_sticky(contract: EngineContract, argv: Sequence[str]) -> bool:
    """Whether the arguments start a sticky process."""
    kept = contract.sticky.argv
    return _is_service(contract, argv) or _takes_messages(contract, argv) or arguments.starts(contract, argv, kept)


def read(contract: EngineContract, argv: Sequence[str]) -> ProcessStart | None:
    """Return how a sticky process is started; None if the arguments start none, UsageProblem if they are refused."""
    if not starts_sticky(contract, argv):
        return None
    line, model = arguments.read_sticky(contract, argv)
    if _is_service(contract, argv):
        return ProcessStart("service", arguments.spread(line.tokens), contract.hermetic.model)
    resumed = line.last(next((name for name, slot in pairwise(contract.launch.resume) if slot == "{handle}"), None))
    syntax, messages = simulation(contract).arguments, simulation(contract).sticky.stream_json
    newest, forks, unkept = (line.last(name) is not None for name in (syntax.newest, syntax.fork, syntax.unkept))
    by_order = str(syntax.newest) if newest else ""
    start = ProcessStart(
        contract.sticky.transport, line.tokens, model, resumed, by_order=by_order, forks=forks, is_kept=not unkept
    )
    if messages is None or not _takes_messages(contract, argv):
        return start
    return replace(
        start,
        transport="stream_json",
        session=line.last(messages.session),
        mode=line.last(messages.mode),
        forgotten=arguments.forgotten(contract, line),
    )


def _is_service(contract: EngineContract, argv: Sequence[str]) -> bool:
    """Whether the arguments start a service for many sessions."""
    service = simulation(contract).sticky.service
    return service is not None and arguments.starts(contract, argv, service.argv)


def _takes_messages(contract: EngineContract, argv: Sequence[str]) -> bool:
    """Whether the arguments have the options that start a process for messages as JSON lines."""
    messages = simulation(contract).sticky.stream_json
    return messages is not None and contains(arguments.spread(argv), messages.argv)
