"""Writes the schemas that are generated from structs: `python -m tests.tools.schemas`."""

from tests.tools.schemas.table import FOLDER, SCHEMAS, text_of

if __name__ == "__main__":
    for name in SCHEMAS:
        (FOLDER / f"{name}.json").write_text(text_of(name), "utf-8")
