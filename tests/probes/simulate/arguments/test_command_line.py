from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from tests.tables import each
from turngate.contract.simulation import ArgumentSyntax
from turngate_probes.simulate.arguments import AcceptedOption, CommandLine, LineReader, UsageProblem

OPTIONS = {
    "--model": AcceptedOption("--model", "<MODEL>"),
    "-m": AcceptedOption("--model", "<MODEL>"),
    "--image": AcceptedOption("--image", "<FILE...>", several=True, repeatable=True),
    "--output-format": AcceptedOption("--output-format", "<format>"),
    "--json": AcceptedOption("--json"),
}


def _read(argv: Sequence[str], syntax: ArgumentSyntax | None = None) -> CommandLine:
    paths = [(), ("exec",), ("exec", "resume")]
    return LineReader(OPTIONS, syntax or ArgumentSyntax(), paths).read(argv)


def test_commands_options_and_words_are_told_apart() -> None:
    """Options may be anywhere, and nothing after `--` is an option."""
    line = _read(["--model=a", "exec", "--json", "resume", "word", "exec", "--", "--json"])
    assert (line.commands, line.words) == (("exec", "resume"), ["word", "exec", "--json"])
    assert line.tokens == ["--model", "a", "--json"]
    assert (line.last("-m"), line.has("--json", None), line.last("--image")) == ("a", True, None)


def test_short_options_may_be_one_word() -> None:
    """A switch before others, a value after an option, also one with an equals sign."""
    options = {**OPTIONS, "-p": AcceptedOption("--print")}
    reader = LineReader(options, ArgumentSyntax(attached=True), [()])
    assert reader.read(["-pma=b", "word"]).options == [("--print", None), ("--model", "a=b")]
    assert reader.read(["-pm", "a"]).options == [("--print", None), ("--model", "a")]


def test_several_values_end_with_the_next_option() -> None:
    """An option with several values takes words up to the next option."""
    line = _read(["--image", "a", "b", "--json", "c"])
    assert ([value for name, value in line.options if name == "--image"], line.words) == (["a", "b"], ["c"])


@each(
    "argv, kind",
    [
        (["--no-such"], "unknown"),
        (["--model"], "missing"),
        (["--model", "--json"], "missing"),
        (["--model", "a", "-m", "b"], "repeated"),
        (["--output-format", "x"], "choice"),
        (["--model", "a b"], "malformed"),
        (["exec", "--image", "a"], "unknown"),
    ],
)
def test_what_is_wrong_is_told(argv: list[str], kind: str) -> None:
    """The first mistake is named by its kind."""
    syntax = ArgumentSyntax(
        repeated="refused",
        choices={"--output-format": ("json",)},
        patterns={"--model": r"\w+"},
        not_after={"exec": ("--image",)},
    )
    with pytest.raises(UsageProblem) as refused:
        _read(argv, syntax)
    assert refused.value.kind == kind


def test_other_parsers_accept_more() -> None:
    """Values with dashes, empty values, attached values and camel case are accepted where the syntax says so."""
    syntax = ArgumentSyntax()
    assert _read(["--model", "--json"], replace(syntax, dashes=True)).last("--model") == "--json"
    assert _read(["--model"], replace(syntax, no_value="empty")).last("--model") == ""
    assert _read(["-mfast"], replace(syntax, attached=True)).last("--model") == "fast"
    assert _read(["--outputFormat", "x"], replace(syntax, camel_case=True)).last("--output-format") == "x"
