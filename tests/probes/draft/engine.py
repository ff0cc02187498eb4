"""The made-up engine of docs/writing-a-contract.md, written for a test."""

import re
from pathlib import Path

PAGE = (Path(__file__).parents[3] / "docs/writing-a-contract.md").read_text("utf-8")
VARIABLES = {"ACME_BASE_URL": "{url}/v1", "ACME_API_KEY": "stub"}


def install(folder: Path, **changes: str) -> Path:
    """Write the engine, with these words replaced, and return its path."""
    (text,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    executable = folder / "acme"
    executable.write_text(text)
    executable.chmod(0o755)
    return executable
