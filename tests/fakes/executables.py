"""Installs fake engines as executables."""

import sys
from pathlib import Path

from tests.probes.simulate.played import quickened
from turngate.contract.engine_contract import EngineContract
from turngate.files import write_atomically
from turngate_probes.conform.executable import install
from turngate_probes.conform.plan import ConformPlan

# isolated and without site packages, since they start often
_SOURCE = f"""#!{sys.executable} -IS
import sys
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from tests.fakes.MODULE import main
sys.exit(main(ARGUMENTS))
"""
# the release and the fifo are for an engine without plays
HEADLESS = _SOURCE.replace("MODULE", "headless_engine").replace("ARGUMENTS", '"codex-cli 0.169.0", "meeting"')
# most calls of a server ask for the version and the help, so these start no Python
_SCRIPTED = f"""#!/bin/sh
for word do
    words="${{words:+$words, }}'$word'"
    case $word in --version | --help) asked=$word;; esac
done
if [ "$*" = --version ] || [ "$asked" = --help ]; then
    printf '%s\n' "{{'argv': [$words]}}" >>"$0.asked"
    exec cat "$0.${{asked#--}}"
fi
exec {sys.executable} -IS -c '
import sys
sys.argv = sys.argv[1:]
sys.path.insert(0, "{Path(__file__).parents[2]}")
from tests.fakes.headless_engine import main
sys.exit(main("", ""))
' "$0" "$@"
"""


def scripted(executable: Path, version: str, help_page: str) -> Path:
    """Install the headless engine, which plays the file next to it, or change the version and help that it tells."""
    executable.parent.mkdir(parents=True, exist_ok=True)
    # first and each at once, since a server may ask the executable as soon as it exists, and while they are replaced
    for name, text in (("version", version), ("help", help_page)):
        write_atomically(executable.with_name(f"{executable.name}.{name}"), f"{text}\n")
    return executable if executable.exists() else _written(executable, _SCRIPTED)


def headless(executable: Path) -> Path:
    """Install the headless engine as an executable, which plays the files next to it."""
    return _written(executable, HEADLESS)


def simulated(contract: EngineContract, executable: Path) -> Path:
    """Install a simulated engine that follows the lines of its prompts, as an executable of any name.

    It starts no Python to print its version and its help.
    """
    folder = executable.parent
    folder.mkdir(parents=True, exist_ok=True)
    plan = ConformPlan(str(folder), contract.engine, str(contract.version), ())
    return quickened(install(plan, "tests.fakes.scripted"), contract).replace(executable)


def _written(executable: Path, source: str) -> Path:
    executable.parent.mkdir(parents=True, exist_ok=True)
    executable.write_text(source)
    executable.chmod(0o755)
    return executable
