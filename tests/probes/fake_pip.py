"""A stand-in for `python -m pip`: an index of one package in the folder of this file.

`published` lists the versions. `fail` is the stderr of every failing call. `without` may contain `executable`.
"""

import hashlib
import json
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main(argv: list[str]) -> None:
    """Handle one pip call in the current directory."""
    with (HERE / "calls").open("a") as calls:
        calls.write(json.dumps(argv) + "\n")
    if (HERE / "fail").exists():
        sys.exit((HERE / "fail").read_text())
    published = (HERE / "published").read_text().split()
    if argv[0] == "index":
        if "--quiet" in argv:
            return
        print(f"package ({published[-1]})\nAvailable versions: {', '.join(reversed(published))}")  # noqa: T201 - pip's
        return
    version = next(word for word in argv if "==" in word).partition("==")[2]
    if version not in published:
        sys.exit(
            "ERROR: Could not find a version that satisfies it (from versions: 1)\nERROR: No matching distribution"
        )
    executable = Path("site/vendor/bin/codex")
    executable.parent.mkdir(parents=True)
    if not (HERE / "without").exists():
        executable.touch(mode=0o755)
    digest = {"sha256": hashlib.sha256(version.encode()).hexdigest()}
    report = {"install": [{"download_info": {"archive_info": {"hashes": digest}}}]}
    Path("pip-report.json").write_text(json.dumps(report))


if __name__ == "__main__":
    main(sys.argv[3:])
