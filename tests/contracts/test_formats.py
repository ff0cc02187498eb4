"""The version in the name of a format: known, newer, or none."""

import pytest

from tests.tables import each
from turngate.formats import NewerFormatError, version_of


@pytest.mark.parametrize("found, version", [("turngate.x/1", 1), ("turngate.x/12", 12)])
def test_versions_up_to_the_newest_are_known(found: str, version: int) -> None:
    """The version of this turngate and earlier ones are returned."""
    assert version_of(found, "turngate.x/12") == version


@pytest.mark.parametrize("found", ["turngate.x/13", "turngate.x/999999999"])
def test_a_newer_version_is_told(found: str) -> None:
    """The error names both versions."""
    with pytest.raises(
        NewerFormatError, match=f"a newer turngate wrote it: its format is {found}, .* up to turngate.x/12"
    ):
        version_of(found, "turngate.x/12")


@each(
    "found",
    [
        "",
        "turngate.x",
        "turngate.x/",
        "turngate.x/0",
        "turngate.x/-1",
        "turngate.x/1.5",
        "turngate.x/01",
        "turngate.x/\u0661",
        "turngate.x/1\n",
        "turngate.y/1",
        "turngate.x/1/1",
        "x/1",
        "turngate.x/" + "9" * 5000,
        None,
        1,
        [],
    ],
)
def test_anything_else_is_another_format(found: object) -> None:
    """It is never taken for a newer version, whatever it is."""
    with pytest.raises(ValueError, match="its format is") as refused:
        version_of(found, "turngate.x/12")
    assert not isinstance(refused.value, NewerFormatError)
    assert len(str(refused.value)) < 200
