"""Options that several commands share."""

from pathlib import Path

import click

data_dir_option = click.option(
    "--data-dir",
    "asked_dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory for runs and handles.  [default: TURNGATE_DATA_DIR, else the platform's user data folder]",
)
