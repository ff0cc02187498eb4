"""A stand-in for npm: a registry of one package in a folder, which does as the files in that folder say.

`published.json` lists the versions. `fail-<command>` holds the standard error of a failing command.
`wait-<command>` is a fifo, which the command reads to its end before it goes on. `without` names what an
installation shall lack: `executable`, `integrity`, `pin` (it leaves its lock). `calls` gets every call.
"""

import base64
import hashlib
import json
import os
import sys
from pathlib import Path

PACKAGE = "@vendor/engine"


def main() -> None:
    """Play one call of npm in the current directory."""
    registry, command = Path(os.environ["FAKE_NPM"]), sys.argv[1]
    with (registry / "calls").open("a") as calls:
        calls.write(json.dumps(sys.argv[1:]) + "\n")
    if (registry / f"wait-{command}").exists():
        (registry / f"wait-{command}").read_bytes()
    if (registry / f"fail-{command}").exists():
        sys.exit((registry / f"fail-{command}").read_text())
    published = json.loads((registry / "published.json").read_text())
    if command == "view":
        print(json.dumps(published if sys.argv[3] == "versions" else published[-1]))  # noqa: T201 - npm prints
    else:
        install(published, (registry / "without").read_text().split())


def install(published: list[str], without: list[str]) -> None:
    """Put the package that package.json asks for, and a lock, into the current directory."""
    ((package, version),) = json.loads(Path("package.json").read_text())["dependencies"].items()
    if version not in published:
        sys.exit("npm error code ETARGET\nnpm error notarget No matching version found for it.")
    lock = Path("package-lock.json")
    if not lock.exists() or "pin" in without:
        digest = base64.b64encode(hashlib.sha512(version.encode()).digest()).decode()
        entry = {"version": version} | ({} if "integrity" in without else {"integrity": f"sha512-{digest}"})
        lock.write_text(json.dumps({"packages": {"": {}, f"node_modules/{package}": entry}}))
    if "executable" not in without:
        executable = Path("node_modules/.bin/engine")
        executable.parent.mkdir(parents=True)
        executable.touch(mode=0o755)


if __name__ == "__main__":
    main()
