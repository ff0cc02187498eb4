"""A plugin of pytest: `pytest --turngate codex@0.169.0` gives one test for each clause.

Loaded into every run of pytest, so it imports nothing of ours, and does nothing, until `--turngate` asks for it.
"""

import pytest

LEVELS = ("static", "hermetic", "server")
PROBLEMS = ("broken", "degraded", "caveat")
MARKER = "turngate: a clause that a release of an engine is asked"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("turngate", "ask releases of coding-agent CLIs for their clauses")
    group.addoption(
        "--turngate", action="append", default=[], metavar="TARGET",
        help="ENGINE, ENGINE@VERSION or ENGINE=PATH; may be repeated",
    )  # fmt: skip
    group.addoption("--turngate-level", choices=LEVELS, default="hermetic", help="as --level of `turngate probe`")
    group.addoption("--turngate-fail-on", choices=PROBLEMS, default="broken", help="as --fail-on of `turngate probe`")
    group.addoption(
        "--turngate-strict", dest="turngate_fail_on", action="store_const", const="degraded",
        help="short for --turngate-fail-on degraded",
    )  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker of our tests."""
    config.addinivalue_line("markers", MARKER)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Add our tests before -k and -m choose."""
    if config.getoption("turngate"):
        from turngate_probes.pytest_plugin.items import tests  # noqa: PLC0415 - see above

        options = (config.getoption(f"turngate{option}") for option in ("", "_level", "_fail_on"))
        items += tests(session, *options)
