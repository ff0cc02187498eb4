"""Makes the links of README.md absolute, for an index: `python .github/index_readme.py BASE TAG`."""

import re
import sys
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"
_LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<path>(?![a-z]+:|#|/)[^)\s]+)\)")


def absolute(readme: str, base: str, tag: str) -> str:
    """Return the text with its relative links and images as addresses below `base`, a repository, at a tag."""

    def link(found: re.Match[str]) -> str:
        kind = "raw" if found["image"] else "blob"
        return f"{found['image']}[{found['text']}]({base}/{kind}/{tag}/{found['path']})"

    return _LINK.sub(link, readme)


if __name__ == "__main__":
    try:
        README.write_text(absolute(README.read_text("utf-8"), sys.argv[1].rstrip("/"), sys.argv[2]), "utf-8")
    except IndexError:
        sys.exit("usage: python .github/index_readme.py BASE TAG")
