import pytest

from tests.tools.schemas.table import FOLDER, SCHEMAS, text_of


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_committed_schema_is_the_generated_one(name: str) -> None:
    """The committed schemas are the generated ones; `make schemas` writes them."""
    assert (FOLDER / f"{name}.json").read_text("utf-8") == text_of(name)
