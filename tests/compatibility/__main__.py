"""`make compatibility`: adds the named reports and writes the compatibility tables again.

`make compatibility ARGS='report.json …'` takes what `turngate matrix … --report report.json` wrote.
"""

import json
import sys
from pathlib import Path

from tests.compatibility.kept import ROOT, added, read, write
from tests.compatibility.render import in_readme, page
from turngate_probes.releases.source import published

README, PAGE = ROOT / "README.md", ROOT / "docs" / "compatibility.md"


def main() -> int:
    """Add reports, then render the tables."""
    kept = read()
    for path in map(Path, sys.argv[1:]):
        report = json.loads(path.read_text("utf-8"))
        names = {release["engine"] for release in report["releases"]}
        kept = added(kept, report, {name: published(name).versions for name in names})
    write(kept)
    PAGE.write_text(page(kept), "utf-8")
    README.write_text(in_readme(README.read_text("utf-8"), kept), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
