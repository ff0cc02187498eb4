"""Refuses turns in which nothing keeps an engine from acting unasked, or a workspace from taking it over.

A contract declares where that is so: by a deviation from one of the clauses below. If nobody knows which release an
engine is, it could be any of those that deviate. An operator may allow an engine all the same, or trust a workspace,
whose files then have all the effects that the engine gives them.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from turngate.contract.engine_contract import Deviation, EngineContract
from turngate.contract.home_and_workspace import UnsafeSetting
from turngate.contract.launch import Guards
from turngate.contract.session_ids import slots
from turngate.errors import UnsafeTurnError
from turngate.model import Mode

_BOTH = frozenset(Mode)
_INTERACTIVE = frozenset({Mode.INTERACTIVE})
# the modes that each clause protects; from settings of the user, and from files of the workspace
_FROM_USER: Mapping[str, frozenset[Mode]] = {"interactive.settings-cannot-widen": _INTERACTIVE}
_FROM_WORKSPACE: Mapping[str, frozenset[Mode]] = {
    "workspace.cannot-redirect": _BOTH,
    "interactive.nothing-started": _INTERACTIVE,
}
# the same for processes that outlive a turn
_KEPT_FROM_USER: Mapping[str, frozenset[Mode]] = {"sticky.settings-cannot-widen": _INTERACTIVE}
_KEPT_FROM_WORKSPACE: Mapping[str, frozenset[Mode]] = {"sticky.workspace-cannot-redirect": _BOTH}


class Trust(Struct, frozen=True):
    """What an operator allows: engines that can't be made safe, and workspaces with the files in them.

    `unsafe_engines` are names, as after `--allow-unsafe` of the commands; `workspaces`, as after `--trust-workspace`.

    >>> from pathlib import Path
    >>> turngate.Trust(workspaces=(Path("/work/mine"),)).trusts(Path("/work/mine"))
    True
    """

    unsafe_engines: frozenset[str] = frozenset()
    workspaces: tuple[Path, ...] = ()

    def trusts(self, workspace: Path) -> bool:
        """Return whether the operator trusts the files of a workspace. That of a directory in it is another one."""
        return any(workspace.resolve() == trusted.resolve() for trusted in self.workspaces)

    def applied(self, contract: EngineContract, workspace: Path) -> EngineContract:
        """Return the contract for a workspace: without what keeps its files from having effects if it is trusted.

        The supplied files stay, since the arguments of mode interactive may name them too.
        """
        if not self.trusts(workspace):
            return contract
        return replace(contract, guards=Guards(files=contract.guards.files), instruction_files=())

    def check(
        self,
        contract: EngineContract,
        mode: Mode,
        workspace: Path | None,
        env: Mapping[str, str | None],
        *,
        kept: bool = False,
    ) -> None:
        """Refuse a turn that can't be made safe, in a workspace (None: one of its own, in which nobody put a file).

        `env` has the variables that locate the user's settings. `kept` says that the process outlives the turn.
        UnsafeTurnError says what is unsafe, and what the operator can do.
        """
        if contract.engine in self.unsafe_engines:
            return
        allow = f"--allow-unsafe {contract.engine}"
        what = f"{contract.engine} {contract.version}" if contract.version else f"some releases of {contract.engine}"
        if unsafe := _declared(contract, mode, _KEPT_FROM_USER if kept else _FROM_USER):
            hint = f"{unsafe.action}; to run it all the same, pass {allow}"
            raise UnsafeTurnError(f"settings of the user let {what} act without asking", hint, unsafe.clause)
        if found := _unsafe_setting(contract, mode, env, kept=kept):
            setting, file = found
            hint = f"{setting.remedy}; to run it all the same, pass {allow}"
            clause = next(iter(_KEPT_FROM_USER if kept else _FROM_USER))
            raise UnsafeTurnError(f"{setting.name} in {file} lets {what} act without asking", hint, clause)
        if workspace is None or self.trusts(workspace):
            return
        if unsafe := _declared(contract, mode, _KEPT_FROM_WORKSPACE if kept else _FROM_WORKSPACE):
            trust = f"--trust-workspace {workspace}"
            hint = f"{unsafe.action}; if you know every file in it, pass {trust}, or {allow}"
            raise UnsafeTurnError(f"files in the workspace can reconfigure {what}", hint, unsafe.clause)


NO_TRUST = Trust()


def declares_unsafe(contract: EngineContract) -> bool:
    """Return whether a contract declares that nothing makes some turn of its engine safe."""
    protecting = {*_FROM_USER, *_FROM_WORKSPACE, *_KEPT_FROM_USER, *_KEPT_FROM_WORKSPACE}
    return any(deviation.clause in protecting for deviation in contract.deviations)


def _unsafe_setting(
    contract: EngineContract, mode: Mode, env: Mapping[str, str | None], *, kept: bool
) -> tuple[UnsafeSetting, Path] | None:
    """Return the first setting that nothing outranks, and the file of the user that has it."""
    if mode is not Mode.INTERACTIVE:
        return None
    values = slots(contract.store.locations if contract.store else {}, env)
    for setting in contract.unsafe_settings:
        place, _, below = setting.files.partition("/")
        folder = values.get(place.strip("{}"))
        for file in sorted(Path(folder).glob(below)) if folder and (kept or not setting.kept_only) else ():
            if re.search(setting.pattern, _text(file)):
                return setting, file
    return None


def _text(file: Path) -> str:
    """Return the text of a file; what turngate can't read, an engine of the same user can't read either."""
    try:
        return file.read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""


def _declared(contract: EngineContract, mode: Mode, clauses: Mapping[str, frozenset[Mode]]) -> Deviation | None:
    """Return a deviation from one of the clauses; in mode interactive, that of any release if this one is unknown."""
    declared = contract.deviations
    if contract.version is None and mode is Mode.INTERACTIVE:
        command = " ".join((contract.executable, *contract.version_query.argv))
        action = f"use a release that turngate knows, whose version `{command}` prints"
        declared = (*declared, *(Deviation(clause, "unknown-release", action) for clause in contract.some_deviate))
    return next((d for d in declared if mode in clauses.get(d.clause, ())), None)
