"""The process that checks output schemas: `python -m turngate_reference.server.output_schema.worker`.

It reads checks from stdin and writes verdicts to stdout. Each check runs in a fork, so that one that exceeds its
limits costs no new interpreter; this process has one thread, and a fork of it is safe. It ends with its stdin, in the
middle of a check too.
"""

import gc
import os
import resource
import select
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import IO, NoReturn

from turngate_reference.server.output_schema.flaws import data_flaw, schema_flaw
from turngate_reference.server.output_schema.protocol import (
    SchemaCheck,
    SchemaVerdict,
    decoded_check,
    encoded,
    read_frame,
    write_frame,
)

_OUT_OF_MEMORY = 3


def main(stdin: IO[bytes], stdout: IO[bytes]) -> None:
    """Answer every check until stdin ends."""
    schema_flaw({"pattern": "a"})  # what the library makes once is made before the forks
    gc.freeze()
    with suppress(EOFError, BrokenPipeError):
        while True:
            write_frame(stdout, _verdict(decoded_check(read_frame(stdin)), stdin))


def _verdict(check: SchemaCheck, stdin: IO[bytes]) -> bytes:
    """Run a check in a fork; return its verdict, encoded. EOFError if stdin ends during the check."""
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        _run(check, writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as result:
        ready, _, _ = select.select([result, stdin], [], [])
        if stdin in ready:
            os.kill(child, signal.SIGKILL)
        verdict = result.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if stdin in ready:
        raise EOFError
    return encoded(SchemaVerdict(died=_cause(code, check))) if code else verdict


def _run(check: SchemaCheck, writer: int) -> NoReturn:
    """Do a check in this process, then exit."""
    code = 1
    try:
        # if the process that forked this one is killed, the server must see the end of its output
        os.close(sys.stdin.fileno())
        os.close(sys.stdout.fileno())
        # SIGPROF, unlike any limit inside the interpreter, also ends a regular expression in progress
        signal.setitimer(signal.ITIMER_PROF, check.cpu_seconds)
        with suppress(ValueError, OSError):  # not every system has this limit
            resource.setrlimit(resource.RLIMIT_AS, (check.memory, check.memory))
        flaw = data_flaw(check.final_data, check.schema) if check.applies else schema_flaw(check.schema)
        os.write(writer, encoded(SchemaVerdict(flaw)))
        code = 0
    except MemoryError:
        code = _OUT_OF_MEMORY
    finally:
        os._exit(code)


def _cause(code: int, check: SchemaCheck) -> str:
    if code == -signal.SIGPROF:
        return f"it took more than {check.cpu_seconds:g} s of CPU time"
    if code == _OUT_OF_MEMORY:
        return f"it took more than {check.memory // 2**20} MiB of memory"
    return f"its process ended with {f'signal {-code}' if code < 0 else f'exit code {code}'}"


if __name__ == "__main__":
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stderr.fileno())  # nobody reads it from here on
    main(sys.stdin.buffer, sys.stdout.buffer)
