"""The vendors' SDKs, each imported by the first test that uses it, since an import takes a second."""

from importlib import import_module
from typing import Any


class Sdk:
    """A lazily imported module."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        """Return an attribute of the module; pytest's search for marks must not import it."""
        if attribute.startswith("_") or "pytest" in attribute:
            raise AttributeError(attribute)
        return getattr(import_module(self._name), attribute)


anthropic, openai = Sdk("anthropic"), Sdk("openai")
genai, errors, types = Sdk("google.genai"), Sdk("google.genai.errors"), Sdk("google.genai.types")
