"""Starts a sticky process and ends its whole tree; both block, and belong on a thread of their own."""

import logging
import os
import shlex
import signal
import subprocess
from contextlib import suppress
from dataclasses import dataclass

import orjson

from turngate.argv import build as argv
from turngate.contract.launch import ModeQuery
from turngate.process import ProcessRequest, ProcessTree, run, start_time
from turngate_reference.engine.attempt import write_command
from turngate_reference.server.sticky.events import StickyRequest
from turngate_reference.server.sticky.transport import TransportError, permission_mode_of

_QUERY_TIMEOUT = 60.0
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Started:
    """A started process with its tree, its start time in seconds since the epoch, and its arguments."""

    process: subprocess.Popen[bytes]
    tree: ProcessTree
    started_at: float
    argv: tuple[str, ...]

    def hurry(self) -> None:
        """Ask the group of the process to end, at once: many that end together are then found gone by `end`."""
        with suppress(OSError):
            os.killpg(self.process.pid, signal.SIGTERM)

    def end(self) -> int | None:
        """End the whole tree and give the exit code of the process."""
        self.tree.end()
        return self.tree.reap()[0]


def start(request: StickyRequest) -> Started:
    """Start the process, once its configuration has been seen to ask where the contract says how.

    The command is written among the traces.

    Raises:
        RefusedError: an option can't be passed.
        EnvironmentFailed: it could not be started.
        OSError: the command can't be written.
        TransportError: the configuration in force lets it act without asking.
    """
    arguments = argv.sticky(request.contract, request.mode, options=request.options, model=request.model)
    permission_mode = permission_mode_of(request.contract, request.mode)
    env = {**request.env, **permission_mode.env}
    if permission_mode.query:
        _query(request, permission_mode.query, env)
    tree = ProcessTree(request.tag)
    command = (str(request.executable), *arguments)
    write_command(request.traces, command, request.contract.version)
    _logger.debug("sticky in %s: %s", request.cwd, shlex.join(command))
    process = tree.start(command, request.cwd, env, stdin=True)
    return Started(process, tree, start_time(process.pid), arguments)


def _query(request: StickyRequest, query: ModeQuery, env: dict[str, str]) -> None:
    """Have the engine print its configuration, and check that every value below the key is an allowed one."""
    command = (str(request.executable), *query.argv)
    printed = run(ProcessRequest(command, request.cwd, env, timeout=_QUERY_TIMEOUT, tag=request.tag)).stdout
    try:
        document = orjson.loads(printed)
    except orjson.JSONDecodeError:
        raise TransportError(f"its configuration can't be seen: {' '.join(query.argv)} printed no JSON") from None
    values = _below(document, query.key, (), within=False)
    if not values:
        raise TransportError(f"its configuration says nothing of {query.key}")
    for place, value in values:
        if value not in query.values:
            raise TransportError(f"its configuration lets it act without asking: {place} is {str(value)[:100]}")


def _below(value: object, key: str, path: tuple[str, ...], *, within: bool) -> list[tuple[str, object]]:
    """Return every plain value below the key, with its place."""
    if isinstance(value, dict):
        parts = [(str(name), part, within or name == key) for name, part in value.items()]
    elif isinstance(value, list):
        parts = [(str(number), part, within) for number, part in enumerate(value)]
    else:
        return [(".".join(path), value)] if within else []
    return [entry for name, part, below in parts for entry in _below(part, key, (*path, name), within=below)]
