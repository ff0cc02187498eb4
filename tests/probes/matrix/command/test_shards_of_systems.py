"""The scripts of docs/matrix.md for other systems: three shards as the system starts them, one of which is lost."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.probes.matrix.conftest import Shop, verdicts

PAGE = (Path(__file__).parents[4] / "docs/matrix.md").read_text("utf-8")
SHARDS, LOST = (1, 2, 3), 2
GITLAB, JOB = (yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
SLURM, SUBMIT = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
POD = JOB["spec"]["template"]["spec"]
(SLURM_MERGE,) = re.findall(r"--wrap '(.*)'", SUBMIT)
(POD_MERGE,) = re.findall(r"run `(turngate matrix --merge .*?)` in a pod", PAGE)
# of each system: the script of a shard, its variables for the shard of a number, and the script of the merge
SYSTEMS: dict[str, tuple[str, Any, str]] = {
    "gitlab": (
        "\n".join(GITLAB["shard"]["script"]),
        lambda number: {"CI_NODE_INDEX": f"{number}", "CI_NODE_TOTAL": f"{GITLAB['shard']['parallel']}"},
        "\n".join(GITLAB["merge"]["script"]),
    ),
    "kubernetes": (
        POD["containers"][0]["args"][0],
        lambda number: {"JOB_COMPLETION_INDEX": f"{number - 1}"},
        POD_MERGE,
    ),
    "slurm": (
        SLURM,
        lambda number: {"SLURM_ARRAY_TASK_ID": f"{number}", "SLURM_ARRAY_TASK_COUNT": f"{len(SHARDS)}"},
        SLURM_MERGE,
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("system", SYSTEMS)
def test_the_scripts_of_a_system_merge_what_its_shards_found(system: str, shop: Shop) -> None:
    """No shard fails its job; the releases of the lost one are unanswered, and those of the others are not."""
    script, variables, merge = SYSTEMS[system]
    turngate = shop.folder / "bin/turngate"
    program = shlex.quote(str(Path(sys.executable).with_name("turngate")))
    turngate.write_text(f'#!/bin/sh\n[ "$2" = --merge ] || set -- "$@" --level static\nexec {program} "$@"\n')
    turngate.chmod(0o755)
    path = f"{shop.folder / 'bin'}:{os.defpath}"
    for number in set(SHARDS) - {LOST}:
        run(script, shop.folder, {"PATH": path, **variables(number)})
    ended = run(merge.replace("report.html", "report.json"), shop.folder, {"PATH": path}, 2)
    assert "unanswered" in ended
    _, report = shop.run("matrix", "--merge", *(shop.folder / f"shard-{number}" for number in SHARDS if number != LOST))
    found = verdicts(report)
    assert len(found) == 4
    assert {"compatible", "unanswered"} == {*found.values()}


def run(script: str, folder: Path, env: dict[str, str], code: int = 0) -> str:
    """Run a script as a system does, with `/results` in a folder of the test; return what it printed."""
    script = script.replace("/results/", "./")
    env = {**os.environ, **env}
    ended = subprocess.run(["sh", "-ec", script], cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert ended.returncode == code, ended.stderr
    return ended.stdout + ended.stderr


def test_a_system_starts_as_many_shards_as_the_script_says() -> None:
    """The numbers of shards agree, and the results go where the merge reads them."""
    spec = JOB["spec"]
    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", len(SHARDS), len(SHARDS))
    assert f'--shard "$shard/{len(SHARDS)}"' in POD["containers"][0]["args"][0]
    assert POD["restartPolicy"] in {"Never", "OnFailure"}
    assert [mount["name"] for mount in POD["containers"][0]["volumeMounts"]] == [
        each["name"] for each in POD["volumes"]
    ]
    assert GITLAB["shard"]["parallel"] == len(SHARDS)
    assert GITLAB["shard"]["artifacts"] == {"when": "always", "paths": ["shard-*"]}
    assert f"#SBATCH --array=1-{len(SHARDS)}" in SLURM.splitlines()
    for script in (SLURM, SUBMIT):
        subprocess.run(["sh", "-n"], input=script, text=True, check=True)
