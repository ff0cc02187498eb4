"""A stand-in for npm: a registry of one package, controlled by files in a folder, which is what it has for an address.

`published.json` lists the versions. `fail-<command>` is the stderr of a failing command, `says-<command>` that of one
that succeeds. `wait-<command>` is a fifo that the command reads to its end before it continues. `without` lists what an
installation lacks: `executable`, `integrity`, `pin` (the lockfile is rewritten), `lock` (it is empty), or `build` (no
build for this platform, though the package names one for each). `calls` records every call, and `surroundings` the
folder and the variables of each. If there is a file `engine`, it is installed as codex, with the installed version and
`faults-<version>` next to it.
"""

import base64
import hashlib
import json
import os
import sys
from pathlib import Path

PACKAGE = "@vendor/engine"
PLATFORMS = ("darwin-arm64", "darwin-x64", "linux-arm64", "linux-x64")


def main() -> None:
    """Handle one npm call in the current directory."""
    registry, command = Path(os.environ["NPM_CONFIG_REGISTRY"]), sys.argv[1]
    with (registry / "calls").open("a") as calls:
        calls.write(json.dumps(sys.argv[1:]) + "\n")
    with (registry / "surroundings").open("a") as surroundings:
        surroundings.write(json.dumps({"folder": str(Path.cwd()), "env": dict(os.environ)}) + "\n")
    if (registry / f"wait-{command}").exists():
        (registry / f"wait-{command}").read_bytes()
    if (registry / f"fail-{command}").exists():
        sys.exit((registry / f"fail-{command}").read_text())
    if (registry / f"says-{command}").exists():
        sys.stderr.write((registry / f"says-{command}").read_text())
    published = json.loads((registry / "published.json").read_text())
    if command == "view":
        view(published, sys.argv[2], sys.argv[3])
    else:
        install(published, (registry / "without").read_text().split())


def view(published: list[str], asked: str, what: str) -> None:
    """Print all versions, the latest one, or the integrity of a version."""
    wanted = asked.rpartition("@")[2]
    if what != "version":
        print(json.dumps(published if what == "versions" else published[-1]))  # noqa: T201 - npm prints
    elif wanted.startswith(">="):
        releases = [version for version in published if "-" not in version]
        print(json.dumps([{"version": version, "dist.integrity": integrity(version)} for version in releases]))  # noqa: T201
    elif wanted in published:
        print(json.dumps({"version": wanted, "dist.integrity": integrity(wanted)}))  # noqa: T201
    else:
        sys.exit("npm error code E404\nnpm error 404 No match found for version")


def integrity(version: str) -> str:
    """Return the integrity of a version."""
    return f"sha512-{base64.b64encode(hashlib.sha512(version.encode()).digest()).decode()}"


def install(published: list[str], without: list[str]) -> None:
    """Install the package that package.json names, with a lockfile, in the current directory."""
    ((package, version),) = json.loads(Path("package.json").read_text())["dependencies"].items()
    if version not in published:
        sys.exit("npm error code ETARGET\nnpm error notarget No matching version found for it.")
    lock = Path("package-lock.json")
    if not lock.exists() or "pin" in without:
        entry = {"version": version} | ({} if "integrity" in without else {"integrity": integrity(version)})
        lock.write_text(json.dumps({"packages": {"": {}, f"node_modules/{package}": entry}}))
    if "lock" in without:
        lock.write_text("")
    if "executable" not in without:
        executable = Path("node_modules/.bin/engine")
        executable.parent.mkdir(parents=True)
        executable.touch(mode=0o755)
    if "build" in without:
        manifest = Path("node_modules") / package / "package.json"
        manifest.parent.mkdir(parents=True)
        builds = {f"{package}-{platform}": version for platform in PLATFORMS}
        manifest.write_text(json.dumps({"optionalDependencies": builds}))
    bring(Path(os.environ["NPM_CONFIG_REGISTRY"]), version)


def bring(registry: Path, version: str) -> None:
    """Install the registry's engine, if there is one."""
    if not (registry / "engine").exists():
        return
    executable, faults = Path("node_modules/.bin/codex"), registry / f"faults-{version}"
    executable.write_text((registry / "engine").read_text().replace("codex-cli 0.169.0", f"codex-cli {version}"))
    executable.chmod(0o755)
    executable.with_name("faults").write_text(faults.read_text() if faults.exists() else "")


if __name__ == "__main__":
    main()
