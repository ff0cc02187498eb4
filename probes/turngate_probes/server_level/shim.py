"""Replaces the engine on the server's PATH: records each start, then runs the engine in its place.

With a shape it hides session ids: the real engine runs, and text of that shape is removed from its output. For a server
that is not the reference server, it also sets the variables that the engine needs, and keeps what the engine prints.
"""

import os
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Never

from msgspec import Struct

from turngate import EngineContract
from turngate.process.sessions import TAG

# the process stays that of the engine, so that a server which ends it ends the engine; `tee` has no tag, so it is no
# process of the turn
_KEEP = """for stream in stdout stderr; do mkfifo "$at.$stream.pipe"; done
env -u {tag} tee "$at.stdout" <"$at.stdout.pipe" &
env -u {tag} tee "$at.stderr" <"$at.stderr.pipe" >&2 &
exec >"$at.stdout.pipe" 2>"$at.stderr.pipe"
rm "$at.stdout.pipe" "$at.stderr.pipe"
"""
_CODE = "from turngate_probes.server_level.shim import main; main()"


class EngineStart(Struct, frozen=True):
    """One start of the engine: the tag of its processes, its working directory, its arguments, its process."""

    tag: str
    cwd: str
    arguments: tuple[str, ...]
    pid: int = 0


class Shim(Struct, frozen=True):
    """The executable that the server runs, in a separate folder, and its records."""

    folder: Path
    _notes: Path
    _printed: Path
    _queries: tuple[tuple[str, ...], ...]

    def printed(self, start: EngineStart, stream: str) -> bytes:
        """Return what the engine has printed after a start on `stdout` or `stderr`; empty if that is not kept."""
        with suppress(OSError):
            return (self._printed / f"{start.pid}.{stream}").read_bytes()
        return b""

    def starts(self, cwd: Path) -> list[EngineStart]:
        """Return the starts in one directory, in order; the server may also ask there for the version and for help."""
        notes = sorted(self._notes.iterdir(), key=lambda note: note.stat().st_mtime_ns)
        starts = [start for start in map(_start, notes) if start and start.cwd == str(cwd)]
        return [start for start in starts if start.arguments not in self._queries]


def install(
    contract: EngineContract,
    executable: Path,
    root: Path,
    *,
    hide: bool = False,
    given: Mapping[str, str] | None = None,
) -> Shim:
    """Write the stand-in for an executable below `root`; `hide`: without session ids in its output.

    With `given`, it gives the engine these variables, keeps its output, and tags its processes if the server doesn't.
    """
    approval = contract.sticky.interactive
    asked = (contract.version_query, *contract.help.pages, *((approval.query,) if approval and approval.query else ()))
    queries = tuple(tuple(query.argv) for query in asked)
    made = Shim(root / "bin", root / "starts", root / "printed", queries)
    for folder in (made.folder, made._notes, made._printed):  # noqa: SLF001 - it is made here
        folder.mkdir()
    command: tuple[str, ...] = (str(executable),)
    if hide:
        # -P: a file in the engine's working directory must not replace one of turngate's modules
        command = (sys.executable, "-P", "-c", _CODE, str(executable), contract.handle.shape)
    more = ""
    if given is not None:
        tag = f'export {TAG}="${{{TAG}:-/shim-$$}}"'
        variables = [f"export {name}={shlex.quote(value)}" for name, value in given.items()]
        more = "\n".join([tag, *variables, f"at={shlex.quote(str(root / 'printed'))}/$$", _KEEP.format(tag=TAG)])
    note = f'printf \'%s\\0\' "${TAG}" "$PWD" "$@" > {shlex.quote(str(root / "starts"))}/$$'
    path = made.folder / contract.executable
    path.write_text(f'#!/bin/sh\n{more}{note}\nexec {shlex.join(command)} "$@"\n', "utf-8")
    path.chmod(0o755)
    return made


def main() -> Never:
    """Run the command that follows the executable and the shape, and print its output without text of that shape."""
    executable, shape, *arguments = sys.argv[1:]
    hidden = re.compile(shape.encode())
    process = subprocess.Popen((executable, *arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if process.stdout is None or process.stderr is None:
        raise RuntimeError("no pipes")
    threads = [
        threading.Thread(target=_pass_on, args=(source, to, hidden))
        for source, to in ((process.stdout, sys.stdout.buffer), (process.stderr, sys.stderr.buffer))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    code = process.wait()
    os._exit(code if code >= 0 else 1)


def _pass_on(source: BinaryIO, to: BinaryIO, hidden: re.Pattern[bytes]) -> None:
    for line in source:
        to.write(hidden.sub(b"", line))
        to.flush()


def _start(note: Path) -> EngineStart | None:
    words = [os.fsdecode(word) for word in note.read_bytes().split(b"\0")[:-1]]
    return EngineStart(words[0], words[1], tuple(words[2:]), int(note.name)) if len(words) > 1 else None
