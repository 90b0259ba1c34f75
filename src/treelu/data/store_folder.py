"""The folder of a store of rows: locked as long as its process lives, and removed by the next one where it did not."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

PREFIX, LOCK = ".treelu-rows-", "lock"


def remove_leftovers(parent: str | os.PathLike[str]) -> list[Path]:
    """Delete the stores below `parent` whose process has ended without removing them; returns their folders."""
    removed: list[Path] = []
    if fcntl is None:
        return removed
    for folder in Path(parent).glob(f"{PREFIX}*"):
        try:
            found = folder.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
                continue
            lock = _lock_of(folder)
        except OSError:
            continue  # in use, or removed at this moment
        remove_folder(folder)
        os.close(lock)
        removed.append(folder)
    return removed


def new_folder(parent: str | os.PathLike[str]) -> tuple[Path, int]:
    """A new folder below `parent`, and its lock, which lasts as long as this process."""
    if fcntl is None:
        raise OSError("rows are stored on Linux and macOS only; give arrays")
    while True:
        try:
            folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        except OSError as error:
            raise OSError(error.errno, f"{error.strerror}: rows cannot be stored in {parent}") from error
        try:
            lock = _lock_of(folder)
        except (BlockingIOError, FileNotFoundError):
            continue  # another process took it for a leftover before it was locked
        except OSError:  # a file system without locks: what a killed process leaves there stays
            lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        if folder.exists():
            return folder, lock
        os.close(lock)


def _lock_of(folder: Path) -> int:
    """Lock a folder of a store; an OSError where another process has it."""
    lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(lock)
        raise
    return lock


def remove_folder(folder: Path) -> None:
    """Delete a folder that this process has locked; the lock goes last, so that a half removed one is still found."""
    for path in folder.glob("*"):
        if path.name != LOCK:
            path.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
