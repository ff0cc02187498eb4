"""Guesses from help pages."""

import pytest

from turngate_probes.draft.arguments import completed, guess, has, variables

PAGE = """
Usage: acme [options] [prompt]
  -p, --print            print the answer and exit
  --output-format        text, json
                         or stream-json
  --resume <id>          continue a session
  --yolo                 never ask
  --model <name>
"""


def test_a_help_page_suggests_arguments() -> None:
    """The options for output, prompt, session, approval and model are found, over broken lines too."""
    arguments = guess(PAGE)
    assert arguments.start == ("--output-format", "stream-json", "{options}", "-p", "{prompt}")
    assert arguments.resume == ("--output-format", "stream-json", "{options}", "--resume", "{handle}", "-p", "{prompt}")
    assert (arguments.auto, arguments.model) == (("--yolo",), ("--model", "{model}"))


def test_a_page_that_says_nothing() -> None:
    """Without known options there is only the prompt, and no resume."""
    arguments = guess("Usage: acme PROMPT")
    assert (arguments.start, arguments.resume, arguments.auto, arguments.model) == (
        ("{options}", "{prompt}"),
        (),
        (),
        (),
    )
    assert guess("  --json  print events").start == ("--json", "{options}", "{prompt}")


@pytest.mark.parametrize(
    "template, complete",
    [
        ("run --json {prompt}", "run --json {options} {prompt}"),
        ("--json -p {prompt}", "--json {options} -p {prompt}"),
        ("run {options} --json {prompt}", "run {options} --json {prompt}"),
        ("", ""),
    ],
)
def test_the_place_of_the_callers_options(template: str, complete: str) -> None:
    """The caller's options come before the prompt and its flag, unless the user has placed them."""
    assert completed(tuple(template.split())) == tuple(complete.split())


def test_whole_words_count() -> None:
    """A name that is part of another is not on the page."""
    assert has(PAGE, "--model")
    assert not has(PAGE, "--mode")


def test_variables_of_the_spoken_protocols() -> None:
    """Only the variables of the vendor whose protocol was spoken stay in a draft."""
    assert set(variables({"anthropic"})) == {"ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"}
    assert "OPENAI_BASE_URL" in variables({"openai.chat"})
    assert {"OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL"} <= set(variables(set()))
