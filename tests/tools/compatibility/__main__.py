"""`make compatibility`: writes the compatibility tables again, from the histories, and recipes, from the contracts."""

import sys

from tests.tools.compatibility.render import PAGE, README, RECIPES, histories, in_readme, page
from turngate import engine_names
from turngate_probes.report.recipe import recipe


def main() -> int:
    """Render the tables and the recipes."""
    known = histories()
    PAGE.write_text(page(known), "utf-8")
    README.write_text(in_readme(README.read_text("utf-8"), known), "utf-8")
    for engine in engine_names():
        (RECIPES / f"{engine}.md").write_text(recipe(engine).markdown, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
