"""A pytest plugin: `pytest --turngate codex@0.169.0` runs one test for each clause.

Every pytest run loads it, so it imports nothing else from turngate and does nothing without `--turngate`.
"""

import pytest

LEVELS = ("static", "hermetic", "long", "server")
PROBLEMS = ("broken", "degraded", "caveat")
MARKER = "turngate: a clause, tested on a release of an engine"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("turngate", "test releases of coding-agent CLIs")
    group.addoption(
        "--turngate",
        action="append",
        default=[],
        metavar="TARGET",
        help="ENGINE, ENGINE@VERSION or ENGINE=PATH (repeatable)",
    )
    group.addoption("--turngate-level", choices=LEVELS, default="hermetic", help="like --level of `turngate probe`")
    group.addoption("--turngate-fail-on", choices=PROBLEMS, default="broken", help="like --fail-on of `turngate probe`")
    group.addoption(
        "--turngate-strict",
        dest="turngate_fail_on",
        action="store_const",
        const="degraded",
        help="short for --turngate-fail-on degraded",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker of the plugin's tests."""
    config.addinivalue_line("markers", MARKER)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Add the plugin's tests before -k and -m select."""
    if config.getoption("turngate"):
        from turngate_probes.pytest_plugin.items import tests  # noqa: PLC0415 - see above

        options = (config.getoption(f"turngate{option}") for option in ("", "_level", "_fail_on"))
        items += tests(session, *options)
