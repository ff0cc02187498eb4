"""Takes secrets, addresses of registries and paths of the machine out of text before anyone else sees it."""

import re
from collections.abc import Mapping

_SECRETS = re.compile(
    r"(?P<kept>\bbearer\s{1,9}"
    r"|(?:api[_-]?key|token|secret|password)[\"']?(?:\s{0,9}[=:]\s{0,9}|\s{1,9})[\"']?"
    r"|://[^\s/:@]{1,80}:(?=[^\s/@]{1,80}@))"
    r"(?P<secret>[^\s/@]{1,80}(?=@)|(?=[^\s\"'@]{0,80}\d)[A-Za-z0-9._~+/=-]{8,})"
    r"|\b(?P<key>sk-[A-Za-z0-9_-]{16,}|AIza[A-Za-z0-9_-]{30,}|gh[pousr]_[A-Za-z0-9]{20,})",
    re.IGNORECASE,
)
_REGISTRY = re.compile(
    r"(?<![a-z0-9.-])(?:https?://)?(?:[a-z0-9-]+\.)*(?:registry\.[a-z0-9-]+|npmjs|pypi|pythonhosted)"
    r"(?:\.[a-z0-9-]+)*\.[a-z]{2,}(?::\d+)?",
    re.IGNORECASE,
)


def redact(text: str, known: Mapping[str, str] | None = None) -> str:
    """Replace `known` strings, longest first, by placeholders, then what looks like secret or registry."""
    for found in sorted(known or {}, key=len, reverse=True):
        if found:
            text = text.replace(found, (known or {})[found])
    return _REGISTRY.sub("<package-registry>", _SECRETS.sub(_hide, text))


def _hide(match: re.Match[str]) -> str:
    return (match["kept"] or "") + "<secret>"
