"""Files on object stores (`s3://bucket/key` and what else pyarrow knows): listed, recognised, opened.

Credentials come from the environment, as the store's own tools read them; they are in no message.
"""

from __future__ import annotations

import fnmatch
from typing import Any
from urllib.parse import quote

from latentfit.core.errors import DataError, reason_of


def is_remote(name: str) -> bool:
    """Whether a name is an address on a store rather than a path here."""
    return "://" in name


def open_remote(name: str) -> Any:
    """A binary stream that can seek."""
    system, path = _system(name)
    try:
        return system.open_input_file(path)
    except OSError as error:
        raise _explained(name, error) from None


def facts_of(name: str) -> tuple[int, int]:
    """Size and modification time of a file; FileNotFoundError if it does not exist."""
    system, path = _system(name)
    try:
        found = system.get_file_info(path)
    except OSError as error:
        raise _explained(name, error) from None
    if not found.is_file:
        raise FileNotFoundError(f"the file {name} does not exist; check the address")
    return int(found.size), int(found.mtime_ns or 0)


def list_remote(name: str, endings: tuple[str, ...]) -> list[str]:
    """The files that an address names: itself, those in a folder, or those that match a pattern."""
    from pyarrow.fs import FileSelector

    system, path = _system(name)
    kind, _, _ = name.partition("://")
    query = "?" + name.partition("?")[2] if "?" in name and "endpoint_override" in name else ""
    try:
        if "*" not in path:
            if system.get_file_info(path).is_file:
                return [name]
            inside = [one.path for one in system.get_file_info(FileSelector(path)) if one.is_file]
            found = [one for one in inside if one.lower().endswith(endings)]
            missing = (
                f"{name} is neither a file nor a folder with a readable file ({', '.join(endings)}); check the address"
            )
        else:
            fixed = path.partition("*")[0].rpartition("/")[0]
            inside = [one.path for one in system.get_file_info(FileSelector(fixed, recursive=True)) if one.is_file]
            pattern = path.replace("[", "[[]").replace("?", "[?]")  # an address may spell these, and means them
            found = [one for one in inside if fnmatch.fnmatchcase(one, pattern)]
            missing = f"no file matches {name}; check the pattern"
    except OSError as error:
        raise _explained(name, error) from None
    if not found:
        raise FileNotFoundError(missing)
    return [f"{kind}://{quote(one)}{query}" for one in sorted(found)]


def _system(name: str) -> tuple[Any, str]:
    from pyarrow.fs import FileSystem

    try:
        return FileSystem.from_uri(name)  # type: ignore[no-any-return]
    except (OSError, ValueError, NotImplementedError) as error:
        reason = reason_of(error)
        raise DataError(f"{name} is not a readable address ({reason}); give a path, or s3://bucket/key") from None


def _explained(name: str, error: OSError) -> OSError:
    text = " ".join(str(error).split())
    if "NO_SUCH_BUCKET" in text or isinstance(error, FileNotFoundError):
        return FileNotFoundError(f"{name} does not exist; check the address")
    if "ACCESS_DENIED" in text or "Forbidden" in text or "INVALID_ACCESS_KEY" in text or "SIGNATURE" in text:
        return PermissionError(f"{name} may not be read with the credentials in the environment; check them")
    return OSError(f"{name} cannot be read ({text.partition(' (Request ID')[0][:200]}); check the store")
