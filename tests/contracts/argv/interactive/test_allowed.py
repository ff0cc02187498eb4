import pytest

from tests.contracts.releases import NEWEST
from turngate.argv.interactive import allowed, allowed_hint
from turngate.contract import load
from turngate.model import Mode


def test_interactive_lists_what_may_be_passed_and_how() -> None:
    """Each line shows an option and its allowed values: a list, a pattern, a path, or the keys of an override."""
    lines = allowed(NEWEST["codex"], Mode.INTERACTIVE)
    assert "--sandbox, -s read-only" in lines
    assert "--cd, -C PATH in the workspace" in lines
    assert "--config, -c model_reasoning_effort=none|minimal|low|medium|high|xhigh" in lines
    assert any(line.startswith("--model, -m VALUE matching [") for line in lines)
    assert "--default" in allowed(NEWEST["iflow"], Mode.INTERACTIVE)
    assert not [line for line in lines if line.startswith(("--oss", "--output-last-message"))]


def test_auto_lists_every_option() -> None:
    """In mode auto every option of the contract is allowed, with any value, and the words for this mode."""
    lines = allowed(NEWEST["codex"], Mode.AUTO)
    listed = [line.partition(" ")[0].rstrip(",") for line in lines]
    assert listed == [*(o.flag for o in NEWEST["codex"].options), "--yolo"]
    assert {"--oss", "--cd, -C VALUE"} <= set(lines)


@pytest.mark.parametrize("mode", Mode)
def test_a_sticky_process_takes_fewer(mode: Mode) -> None:
    """For a sticky process only options that its arguments have a place for are listed."""
    lines = allowed(NEWEST["codex"], mode, NEWEST["codex"].sticky.options)
    assert lines
    assert all(line.startswith("--config, -c") for line in lines)


def test_an_option_is_listed_for_the_releases_that_have_it() -> None:
    """The list holds the options of the given release."""
    old = load.contract("codex").at("0.58.0")
    assert not [line for line in allowed(old, Mode.INTERACTIVE) if line.startswith("--add-dir")]


def test_the_hint_of_an_error_names_the_mode() -> None:
    """The hint of an error holds the whole list, or says that there are no options."""
    assert allowed_hint(NEWEST["iflow"], Mode.INTERACTIVE).startswith("allowed in mode interactive: --model, -m VALUE")
    assert (
        allowed_hint(load.contract("opencode").at("1.0.0"), Mode.AUTO).count(";")
        == len(load.contract("opencode").at("1.0.0").options) - 1
    )
