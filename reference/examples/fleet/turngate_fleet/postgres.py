"""A PostgreSQL of the example's own, from the packages of the system: no cluster of the system is touched."""

import os
import pwd
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg

from turngate import MachineError

PATIENCE = 60  # seconds to get ready, and to stop


@contextmanager
def postgres(home: Path) -> Iterator[str]:
    """Run PostgreSQL on a free port of 127.0.0.1 with its data in `home`, and yield the address of its database.

    The kernel stops it if this program is killed. MachineError: it can't be started.
    """
    programs = _programs()
    # as root, it has to be another user, which the package has made
    user = pwd.getpwnam("postgres") if os.geteuid() == 0 else None
    switch = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"] if user else []
    data, secret, log = home / "postgres", home / "password", home / "postgres.log"
    if not data.exists():
        shutil.rmtree(new := home / "postgres-new", ignore_errors=True)
        new.mkdir(0o700)
        secret.touch(0o600)
        secret.write_text(secrets.token_urlsafe(), "utf-8")
        if user:
            os.chown(new, user.pw_uid, user.pw_gid)
            os.chown(secret, user.pw_uid, user.pw_gid)
        options = ["--username=fleet", "--auth=scram-sha-256", f"--pwfile={secret}", "--encoding=UTF8", "--no-locale"]
        command = [*switch, str(programs / "initdb"), "-D", str(new), *options]
        if (made := subprocess.run(command, cwd="/", capture_output=True, text=True, check=False)).returncode:
            raise MachineError(f"initdb failed: {made.stderr.strip()}")
        new.rename(data)
    port = _free_port()
    switch = ["setpriv", "--pdeathsig=INT", *switch[1:]]
    settings = [f"port={port}", "listen_addresses=127.0.0.1", "unix_socket_directories=", "max_connections=300"]
    with log.open("ab") as file:
        server = subprocess.Popen(
            [
                *switch,
                str(programs / "postgres"),
                "-D",
                str(data),
                *(word for each in settings for word in ("-c", each)),
            ],
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            process_group=0,
        )  # in a group of its own, so that Ctrl-C stops the workers first
    try:
        url = f"postgresql://fleet:{secret.read_text('utf-8')}@127.0.0.1:{port}/postgres"
        deadline = time.monotonic() + PATIENCE
        while not _answers(url):
            if server.poll() is not None or time.monotonic() > deadline:
                raise MachineError("PostgreSQL did not start", f"see {log}")
            time.sleep(0.1)
        yield url
    finally:
        with suppress(ProcessLookupError):
            server.send_signal(2)
        server.wait(PATIENCE)


def _answers(url: str) -> bool:
    with suppress(psycopg.OperationalError), psycopg.connect(url):
        return True
    return False


def _programs() -> Path:
    """Return the folder of the newest PostgreSQL; Debian keeps it off the PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda file: int(file.parts[-3]))
    if found or (named := shutil.which("initdb")):
        return found[-1].parent if found else Path(named or "").resolve().parent
    raise MachineError("PostgreSQL is not installed", "apt-get install postgresql")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])
