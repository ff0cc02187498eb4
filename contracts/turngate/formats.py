"""The versions of the formats in which turngate writes files, such as `turngate.handle-record/1`."""

import re

_VERSION = re.compile("[1-9][0-9]{0,8}")  # int refuses thousands of digits


class NewerFormatError(ValueError):
    """A newer turngate wrote this; the text says so, and what this version reads."""


def version_of(found: object, newest: str) -> int:
    """Return the version in the name of a format, which is at most that of `newest`, the one that turngate writes now.

    NewerFormatError if it is higher; any other ValueError if `found` is not a version of this format.
    """
    name, _, known = newest.rpartition("/")
    its_name, _, version = found.rpartition("/") if isinstance(found, str) else ("", "", "")
    if its_name != name or not _VERSION.fullmatch(version):
        raise ValueError(f"its format is {str(found)[:100]!r}, not {newest}")
    if int(version) > int(known):
        raise NewerFormatError(
            f"a newer turngate wrote it: its format is {found}, and this version reads up to {newest}"
        )
    return int(version)
