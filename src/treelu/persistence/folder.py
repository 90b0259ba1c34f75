"""Files that appear whole or not at all, one writer of a folder at a time, and reading that no file can abuse.

A file is written under a temporary name and then renamed. Whoever writes holds a lock on the temporary file, which ends
with its process: so the next writer of the same name can tell the leftovers of one that was killed and removes them.
Locks are those of `flock`; where there is none (Windows), writers of one folder must take turns by themselves.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from treelu.persistence.values import ModelFileError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


class Staged:
    """A file in the making: under a temporary name until `publish`, gone after `discard`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        remove_leftovers(path.parent, re.escape(path.name))
        self.temporary, self.file = _create(path)

    def write(self, content: bytes) -> None:
        """Write bytes and bring them to the disk."""
        with naming(self.path):
            self.file.write(content)
            self.finish()

    def finish(self) -> None:
        """Bring what was written to the disk."""
        with naming(self.path):
            self.file.flush()
            os.fsync(self.file.fileno())

    def publish(self) -> None:
        """Give the file its name; an older one of that name is replaced."""
        try:
            self.finish()
            if fcntl is None:
                self.file.close()  # Windows renames no open file
            self.temporary.replace(self.path)
            self.file.close()
        except BaseException:
            self.discard()
            raise

    def discard(self) -> None:
        """Remove the temporary file; nothing where it has been published."""
        with suppress(OSError):  # a full disk may refuse the last bytes of the buffer
            self.file.close()
        self.temporary.unlink(missing_ok=True)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Name the file in errors of the system that name none, as those of a full disk do."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write to that takes its name at the end of the block, and is removed where the block fails."""
    staged = Staged(path)
    try:
        with naming(path):
            yield staged.file
    except BaseException:
        staged.discard()
        raise
    staged.publish()


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file under a temporary name, then give it its own; never leaves a part of it."""
    with replacing(path) as file:
        file.write(content)


def _create(path: Path) -> tuple[Path, BinaryIO]:
    """A new temporary file for a path, locked."""
    while True:
        temporary = path.with_name(f".{path.name}-{secrets.token_hex(8)}.part")
        file = temporary.open("xb")
        if fcntl is None:
            return temporary, file
        with suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(file.fileno()).st_nlink:
            return temporary, file
        file.close()  # another writer took it for a leftover before it was locked


def remove_leftovers(folder: Path, name: str) -> None:
    """Remove temporary files, for names that match a pattern, whose writers have ended."""
    pattern = re.compile(rf"\.{name}-[0-9a-f]{{16}}(\.part)?")  # version 0.1 had no ending
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if pattern.fullmatch(entry.name):
                with suppress(OSError):
                    _remove_unused(Path(entry.path))


def _remove_unused(path: Path) -> None:
    """Remove a file unless somebody holds a lock on it."""
    if fcntl is None:
        path.unlink()  # fails, and rightly, while it is open
        return
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()


@contextmanager
def locked(folder: Path, *, shared: bool = False) -> Iterator[None]:
    """Wait until no other process writes a model into the folder (shared: for readers), and keep it so."""
    if fcntl is None:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


# A file may be so much larger than what of it is on the disk: zeros that were left out or packed.
FREE_BYTES = 1 << 26
PACKED = 64


def read_regular(path: Path, at_most: int) -> bytes:
    """The bytes of a regular file of at most so many; FileNotFoundError where there is none.

    Devices have no end, and opening a pipe waits for its writer: neither is opened. A file of holes is not read.
    """
    try:
        _check_regular(path.stat(), path, at_most)
        nonblocking: int = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
        with open(os.open(path, os.O_RDONLY | nonblocking), "rb") as file:
            about = os.fstat(file.fileno())
            _check_regular(about, path, at_most)
            _check_stored(file.fileno(), about.st_size, path)
            return file.read(min(at_most, about.st_size) + 1)  # a buffer of so many is made at once
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ModelFileError(f"{path.name} cannot be read: {error.strerror or error}") from None


def _check_regular(about: os.stat_result, path: Path, at_most: int) -> None:
    if not stat.S_ISREG(about.st_mode):
        raise ModelFileError(f"{path.name} is a folder, a device or a pipe, not a file")
    if about.st_size > at_most:
        raise ModelFileError(f"{path.name} has {about.st_size:,} bytes; at most {at_most:,} are expected")


def _check_stored(descriptor: int, size: int, path: Path) -> None:
    """Raise for a large file that consists of holes: a few bytes on the disk must not fill the memory."""
    if size <= FREE_BYTES or not hasattr(os, "SEEK_DATA"):
        return
    stored = place = 0
    try:
        while place < size and FREE_BYTES + PACKED * stored < size:
            start = os.lseek(descriptor, place, os.SEEK_DATA)
            place = os.lseek(descriptor, start, os.SEEK_HOLE)
            stored += place - start
    except OSError as error:
        if error.errno not in (errno.ENXIO, errno.EINVAL):  # no data up to the end; a file system that cannot tell
            raise
        stored = size if error.errno == errno.EINVAL else stored
    os.lseek(descriptor, 0, os.SEEK_SET)
    if FREE_BYTES + PACKED * stored < size:
        raise ModelFileError(f"{path.name} states {size:,} bytes, of which {stored:,} are on the disk; copy it again")


def sync_folder(folder: Path) -> None:
    """Bring the names of a folder to the disk, where the system can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
