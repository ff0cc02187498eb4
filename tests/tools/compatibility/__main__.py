"""`make compatibility`: writes the compatibility tables again, from the histories that `make history` fills."""

import sys

from tests.tools.compatibility.render import PAGE, README, histories, in_readme, page


def main() -> int:
    """Render the tables."""
    known = histories()
    PAGE.write_text(page(known), "utf-8")
    README.write_text(in_readme(README.read_text("utf-8"), known), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
