"""The vendors' SDKs, each of which takes a second to import: the first test that uses one imports it."""

from importlib import import_module
from typing import Any


class Sdk:
    """Stands for a module, and for its classes."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        """Return what the module holds; pytest asks every object for its marks, which must import nothing."""
        if attribute.startswith("_") or "pytest" in attribute:
            raise AttributeError(attribute)
        return getattr(import_module(self._name), attribute)


anthropic, openai = Sdk("anthropic"), Sdk("openai")
genai, errors, types = Sdk("google.genai"), Sdk("google.genai.errors"), Sdk("google.genai.types")
