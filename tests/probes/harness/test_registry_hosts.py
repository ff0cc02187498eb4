"""Recognising package registries by their names and by the settings of the user's tools."""

import pytest

from turngate_probes.harness import registry_hosts
from turngate_probes.harness.registry_hosts import configured, is_registry, refused_registry


@pytest.fixture(name="settings", autouse=True)
def _settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let npm and pip have one private registry each, and forget earlier settings."""
    printed = {"npm": '{"@acme:registry": "https://npm.acme.example/", "cache": "https://cache.example"}'}
    monkeypatch.setattr(registry_hosts, "find_program", lambda _name: "npm")
    monkeypatch.setattr(
        registry_hosts,
        "_printed",
        lambda *argv: printed.get(argv[0], "global.index-url='https://pip.acme.example/simple'"),
    )
    monkeypatch.setenv("UV_INDEX_URL", "https://uv.acme.example/simple")
    configured.cache_clear()


@pytest.mark.parametrize("host", ["npm.acme.example", "pip.acme.example", "uv.acme.example", "registry.acme.example"])
def test_a_registry_is_known_by_a_setting_or_its_name(host: str) -> None:
    """A host in the settings of npm, pip or uv, and one with a registry's name, is a package registry."""
    assert is_registry(host)


@pytest.mark.parametrize("host", ["api.acme.example", "cache.example", "telemetry.example"])
def test_any_other_host_is_none(host: str) -> None:
    """A host of a model or of telemetry, and another setting of npm, is none."""
    assert not is_registry(host)


def test_only_a_registry_that_is_named_or_a_silent_end_is_the_cause() -> None:
    """A refused registry is the cause if the output names it, or if there is no output at all."""
    hosts = ["api.acme.example", "npm.acme.example"]
    assert refused_registry(hosts, b"", b"403 Forbidden - GET https://npm.acme.example/codex") == "npm.acme.example"
    assert refused_registry(hosts, b"", b" ") == "npm.acme.example"
    assert refused_registry(hosts, b"", b"Error: no such model") is None
    assert refused_registry(["api.acme.example"], b"", b"can't reach api.acme.example") is None
