"""Lists of models as each vendor's own SDK sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from turngate_probes.stub_model import Refuse, Rule, StubBackend

if TYPE_CHECKING:
    import anthropic
    import openai
    from google import genai
    from google.genai import types
else:
    from tests.probes.stub_model.sdks import anthropic, genai, openai, types


@pytest.fixture(autouse=True)
def _scripted(backend: StubBackend) -> None:
    """Refuse every request to a model: lists are no such request."""
    backend.script(Rule(Refuse(500)))


def test_openai(backend: StubBackend) -> None:
    """The OpenAI SDK lists a model and retrieves one by name."""
    with openai.OpenAI(api_key="x", base_url=f"{backend.url}/v1", max_retries=0) as client:
        assert [each.id for each in client.models.list()] == ["stub"]
        assert client.models.retrieve("other").id == "other"
    assert [(each.protocol, each.model) for each in backend.exchanges()] == [
        ("models", None),
        ("models", "other"),
    ]


@pytest.mark.parametrize("version", ["v1", "v1beta"])
def test_gemini(backend: StubBackend, version: str) -> None:
    """The Gemini SDK lists a model and retrieves one by name."""
    options = types.HttpOptions(base_url=backend.url, api_version=version)
    with genai.Client(api_key="x", http_options=options) as client:
        assert [each.name for each in client.models.list()] == ["models/stub"]
        assert client.models.get(model="other").name == "models/other"


def test_anthropic(backend: StubBackend) -> None:
    """The Anthropic SDK lists a model and retrieves one by name."""
    with anthropic.Anthropic(api_key="x", base_url=backend.url, max_retries=0) as client:
        assert [each.id for each in client.models.list()] == ["stub"]
        assert client.models.retrieve("other").id == "other"
