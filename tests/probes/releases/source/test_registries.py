"""The registries that have an engine's releases."""

import pytest

from turngate.errors import NotFoundError
from turngate_probes.releases.source import default_registry, published, registries


def test_npm_comes_before_pypi() -> None:
    """An engine that both registries have comes from npm, unless PyPI is named."""
    assert [*registries("codex")] == ["npm", "pypi"]
    default = default_registry("codex")
    assert default
    assert default.name == "npm"


def test_an_engine_that_no_registry_has() -> None:
    """For a withdrawn engine there is no registry, and the error says why."""
    assert default_registry("iflow") is None
    with pytest.raises(NotFoundError, match="turngate can't install iflow"):
        published("iflow")


def test_an_engine_that_pypi_does_not_have() -> None:
    """For an engine that PyPI lacks, the error names the registry that has it."""
    with pytest.raises(NotFoundError, match="gemini is not published on pypi") as missing:
        published("gemini", "pypi")
    assert missing.value.hint == "use --registry npm"
