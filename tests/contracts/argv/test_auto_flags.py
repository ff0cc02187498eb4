import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.contracts.releases import NEWEST
from tests.contracts.spellings import SAFE, WIDENING
from tests.tables import each
from turngate.argv.auto_flags import auto_flags_in
from turngate.contract.launch import AutoFlag, AutoKey

WIDE = [(engine, tokens) for engine, spelled in WIDENING.items() for tokens in spelled]
TAME = [(engine, tokens) for engine, spelled in SAFE.items() for tokens in spelled]
# a read-only sandbox makes an approval policy harmless, wherever it stands
OTHERS = [token for _, tokens in WIDE + TAME for token in tokens if "read-only" not in token]
TEXTS = st.text(max_size=12).filter(lambda text: "read-only" not in text)
TOKENS = st.lists(st.one_of(TEXTS, st.sampled_from(OTHERS)), max_size=6)


@each("engine, tokens", WIDE, shown=lambda value: " ".join(value) if isinstance(value, tuple) else value)
def test_widening_spelling_is_seen(engine: str, tokens: tuple[str, ...]) -> None:
    """Each spelling that some parser accepts as an auto-approve flag is found, first, last and in the middle."""
    contract = NEWEST[engine]
    for before, after in (((), ()), (("--model", "m"), ()), ((), ("--model", "m")), (("--model", "m"),) * 2):
        assert auto_flags_in((*before, *tokens, *after), contract), tokens


@each("engine, tokens", TAME, shown=lambda value: " ".join(value) if isinstance(value, tuple) else value)
def test_harmless_spelling_is_let_through(engine: str, tokens: tuple[str, ...]) -> None:
    """Values that look like flags, safe values, and other options are not auto-approve flags."""
    assert auto_flags_in(tokens, NEWEST[engine]) == ()


@each("switch", ["--skip-trust", "--skip-git-repo-check"])
@each("engine", NEWEST)
def test_switch_that_only_lets_the_engine_start_is_none(engine: str, switch: str) -> None:
    """Options that let the engine start in a directory approve no actions."""
    assert auto_flags_in([switch], NEWEST[engine]) == ()


@each("engine", NEWEST)
def test_every_auto_flag_of_a_contract_is_found(engine: str) -> None:
    """Each flag and alias in a contract is found by itself, or with a value that widens approval."""
    for flag in NEWEST[engine].auto_flags:
        for name in (flag.flag, *flag.aliases):
            tokens = [name, f"{flag.keys[0].key}=wide"] if flag.keys else [name]
            assert auto_flags_in(tokens, NEWEST[engine]), tokens


def test_letter_that_takes_a_value_ends_a_cluster() -> None:
    """In `-my` the y is the model's name, not the short form of --yolo."""
    assert auto_flags_in(["-my"], NEWEST["gemini"]) == ()
    assert auto_flags_in(["-ym"], NEWEST["gemini"]) == ("-ym",)


def test_each_finding_is_reported_once_with_its_value() -> None:
    """Each flag is reported once, as it was written, with the value next to it."""
    tokens = ["--sandbox", "workspace-write", "--yolo", "--sandbox", "workspace-write", "-s=read-only"]
    assert auto_flags_in(tokens, NEWEST["codex"]) == ("--sandbox workspace-write", "--yolo")


def test_flag_is_known_only_where_it_exists() -> None:
    """Only flags of the engine's own contract are found."""
    assert auto_flags_in(["--full-auto"], NEWEST["opencode"]) == ()


@given(st.sampled_from(list(NEWEST)), TOKENS, st.sampled_from(WIDE))
def test_other_tokens_never_hide_a_flag_that_stands_apart(
    engine: str, tokens: list[str], wide: tuple[str, tuple[str, ...]]
) -> None:
    """An auto-approve flag is found after any other tokens, and no text raises an error."""
    contract = NEWEST[engine]
    auto_flags_in(tokens, contract)
    assert auto_flags_in([*tokens, *wide[1]], NEWEST[wide[0]])


@given(st.text(max_size=20), st.sampled_from(("", " ", '"', "'")), st.sampled_from(("a", "danger", "read-only x")))
def test_only_the_safe_value_of_a_key_is_safe(before: str, quote: str, value: str) -> None:
    """A key that widens approval is found anywhere in an override, unless its value is safe."""
    contract = NEWEST["codex"]
    assert auto_flags_in(["-c", f"sandbox_mode={quote}{value}{quote}"], contract)
    assert auto_flags_in(["-c", f"{before}={{sandbox_mode={quote}{value}{quote}}}"], contract)


def test_vocabulary_serves_any_engine() -> None:
    """A new engine's flag needs no code: name, safe values and keys are data."""
    flags = (AutoFlag("--trust-all", ("-T",)), AutoFlag("--set", keys=(AutoKey("ask", ("always",)),)))
    contract = replace(NEWEST["iflow"], auto_flags=flags)
    widening = auto_flags_in(["--trustAll", "-T", "--set", "ask=always", "--set=ask=never", "--yolo"], contract)
    assert widening == ("--trustAll", "-T", "--set=ask=never")


@pytest.mark.parametrize(
    "token, seen", [("-vM=ask", ()), ("-vMask", ()), ("-vM=act", ("-vM=act",)), ("-vMact", ("-vMact",))]
)
def test_value_may_end_a_cluster(token: str, seen: tuple[str, ...]) -> None:
    """The last letter of a cluster takes the rest of the token as its value, with or without `=`."""
    contract = replace(NEWEST["iflow"], auto_flags=(AutoFlag("--mode", ("-M",), safe_values=("ask",)),))
    assert auto_flags_in([token], contract) == seen
