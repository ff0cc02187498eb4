from msgspec.structs import replace

from tests.probes.simulate.played import at_known_release
from turngate.contract.simulation import ArgumentSyntax
from turngate_probes.simulate.arguments import AcceptedOption, accepted, commands, template_options

SHOWN = ("-i, --image <FILE...>", "-m, --model <MODEL>", "--enable <FEATURE>...", "-r, --resume [value]", "--json")


def test_options_are_read_as_help_pages_show_them() -> None:
    """Each spelling names the option, whose value may be missing, several or repeated."""
    options = accepted(at_known_release("codex"), ArgumentSyntax(options=SHOWN, spellings={"--experimental": "--json"}))
    assert options["-i"] == options["--image"] == AcceptedOption("--image", "<FILE...>", several=True, repeatable=True)
    assert options["--enable"] == AcceptedOption("--enable", "<FEATURE>", repeatable=True)
    assert options["-r"] == AcceptedOption("--resume", "[value]", optional=True)
    assert options["--experimental"] == options["--json"] == AcceptedOption("--json")
    assert (options["-m"].shown, options["--json"].shown) == ("--model <MODEL>", "--json")


def test_options_of_the_contract_are_known() -> None:
    """Options, auto flags and templates of the contract are known without a simulation, with their values."""
    codex = at_known_release("codex")
    options = accepted(codex, ArgumentSyntax())
    assert (options["-c"].value, options["-c"].repeatable) == ("<value>", True)
    assert (options["--yolo"].value, options["--skip-git-repo-check"].value) == ("", "")
    bare = replace(codex, options=(), auto_flags=(), launch=replace(codex.launch, interactive=()))
    assert not {"--add-dir", "--yolo"} & {*accepted(bare, ArgumentSyntax())}


def test_a_template_is_split_into_commands_and_options() -> None:
    """Words that follow an option are its value, others are commands."""
    template = ("run", "--format", "json", "--print", "{options}", "--session", "{handle}", "{prompt}")
    assert commands(template) == ("run",)
    assert template_options(template) == [("--format", "json"), ("--print", None), ("--session", "{handle}")]
