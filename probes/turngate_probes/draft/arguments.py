"""Guesses the arguments and variables of an unknown CLI from its help. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

KNOWN_VARIABLES: Mapping[str, Mapping[str, str]] = {
    "openai": {
        "OPENAI_BASE_URL": "{url}/v1",
        "OPENAI_API_BASE": "{url}/v1",
        "OPENAI_API_KEY": "stub",
        "OPENAI_MODEL": "stub",
    },
    "anthropic": {"ANTHROPIC_BASE_URL": "{url}", "ANTHROPIC_API_KEY": "stub"},
    "gemini": {"GOOGLE_GEMINI_BASE_URL": "{url}", "GEMINI_API_KEY": "stub"},
}
AUTO = (
    "--yolo",
    "--dangerously-skip-permissions",
    "--dangerously-bypass-approvals-and-sandbox",
    "--full-auto",
    "--allow-all-tools",
    "--yes",
    "--auto",
)
# help pages break lines
_JSON = (
    (r"--output-format\b(?:.*\n?){1,4}?.*stream-json", ("--output-format", "stream-json")),
    (r"--output-format\b.*json", ("--output-format", "json")),
    (r"--format\b.*json", ("--format", "json")),
    (r"--mode\b.*json", ("--mode", "json")),
    (r"--json\b", ("--json",)),
)
_PROMPT = ("-p", "--print", "--prompt")
_RESUME = ("--resume", "--session", "--session-id", "--thread", "--continue")


@dataclass(frozen=True, slots=True)
class Arguments:
    """The templates of a first turn and of a resume (empty: unknown), and the options of mode auto and of a model."""

    start: tuple[str, ...]
    resume: tuple[str, ...]
    auto: tuple[str, ...]
    model: tuple[str, ...]


def guess(page: str) -> Arguments:
    """Return the arguments that the help page suggests."""
    output = next((words for sign, words in _JSON if re.search(sign, page)), ())
    flag = re.search(rf"(?<!\S)({'|'.join(_PROMPT)})\b", page)
    prompt = (flag[0], "{prompt}") if flag else ("{prompt}",)
    start = (*output, "{options}", *prompt)
    resuming = next((name for name in _RESUME if has(page, name)), None)
    resume = (*output, "{options}", resuming, "{handle}", *prompt) if resuming else ()
    auto = next(((name,) for name in AUTO if has(page, name)), ())
    return Arguments(start, resume, auto, ("--model", "{model}") if has(page, "--model") else ())


def has(page: str, name: str) -> bool:
    """Whether a help page has a name as a whole word."""
    return bool(re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", page))


def completed(template: tuple[str, ...]) -> tuple[str, ...]:
    """Add the place of the caller's options to a template that lacks it: before the prompt or its flag."""
    if not template or "{options}" in template:
        return template
    at = template.index("{prompt}") if "{prompt}" in template else len(template)
    at -= bool(at) and template[at - 1] in _PROMPT
    return (*template[:at], "{options}", *template[at:])


def variables(protocols: set[str]) -> dict[str, str]:
    """Return the known variables of the vendors whose protocols were spoken; of all without any."""
    vendors = {name.partition(".")[0] for name in protocols} & KNOWN_VARIABLES.keys() or KNOWN_VARIABLES.keys()
    return {name: value for vendor in vendors for name, value in KNOWN_VARIABLES[vendor].items()}
