"""Writes what a turn was passed and printed beside its sandbox, for a person who looks at it later."""

import json
from pathlib import Path

from turngate_probes.observe import Call, Sight, Turn


def keep_streams(item: Sight, root: Path) -> None:
    """Write argv, stdout, stderr and (of a turn) each request under `turns/<step>` of a kept sandbox; calls nowhere."""
    if isinstance(item, Call):
        return
    folder = root / "turns" / item.name.partition("/")[2]
    folder.mkdir(parents=True, exist_ok=True)
    told = {"argv": item.argv, "exit_code": item.exit_code, "ended": item.ended.value}
    (folder / "command.json").write_text(json.dumps(told, indent=2) + "\n", "utf-8")
    (folder / "stdout").write_bytes(item.stdout)
    (folder / "stderr").write_bytes(item.stderr)
    for i, request in enumerate(item.requests or () if isinstance(item, Turn) else ()):
        (folder / f"request-{i + 1}.json").write_bytes(request.body)
