"""Starts the `turngate` command: what must come before its many imports."""

import gc
import sys
from typing import Never


def main() -> Never:
    """Run the command line of this process and exit; 130 if it is interrupted, even during the imports."""
    # imports create some 30,000 objects and leave no garbage, but would trigger a collection every 700 objects;
    # the limit stays, since commands import more when they need it
    gc.set_threshold(50_000)
    try:
        from turngate.cli import main as command  # noqa: PLC0415 - see above
        from turngate.files import open_streams  # noqa: PLC0415

        open_streams()
        command()
    except KeyboardInterrupt:
        sys.exit(130)
