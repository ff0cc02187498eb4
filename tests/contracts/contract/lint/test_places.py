from tests.contracts.contract.small import SMALL, mistakes_in, only_mistake
from tests.tables import each

STORE = """\
store:
  - since: 0.140.0
    locations: {SMALL_HOME: "{HOME}/.small", SMALL_DATA: "{SMALL_HOME}/data"}
    check: {kind: glob, pattern: "{SMALL_DATA}/*/{handle}.json"}
    unverified: true
"""


WITH_STORE = SMALL.replace("locations: [SMALL_HOME]", "locations: [SMALL_HOME, SMALL_DATA]") + STORE


def test_a_store_and_a_probe_that_agree_are_valid() -> None:
    """A default may use the variables before it; a probe may use the store's variables where the store exists."""
    assert mistakes_in(WITH_STORE) == []
    probe = "{command: {argv: [resume, --help], names: [ID]}, unverified: true}"
    late = '{since: 0.140.0, directory: "{SMALL_DATA}/x", unverified: true}'
    assert mistakes_in(WITH_STORE.replace(probe, late)) == []


@each(
    "old, new, path, message",
    [
        ("{HOME}/.small", "{SMALL_DATA}/x", "$.store[0].locations.SMALL_HOME", "unknown slot {SMALL_DATA}"),
        ("{SMALL_DATA}/*/", "{OTHER}/*/", "$.store[0].check.pattern", "unknown slot {OTHER}"),
        ("{SMALL_DATA}/*/", "{SMALL_DATA}/**/", "$.store[0].check.pattern", "wildcard other than"),
        ("{handle}.json", "{handle}.jso?", "$.store[0].check.pattern", "wildcard other than"),
        ("[SMALL_HOME, SMALL_DATA]", "[SMALL_DATA]", "$.environment[0].locations", "SMALL_HOME of `store` is missing"),
    ],
)
def test_a_store_that_nothing_else_agrees_with_is_reported(old: str, new: str, path: str, message: str) -> None:
    """Unknown slots, unsupported wildcards and variables that a resume would not keep are errors."""
    assert WITH_STORE.count(old) == 1
    error = only_mistake(WITH_STORE.replace(old, new))
    assert (error.path, bool(error.hint)) == (path, True)
    assert message in error.what
