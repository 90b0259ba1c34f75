"""Saved models without pickle: arrays as safetensors, the rest as JSON, both with checksums.

A saved model is a folder with two files.

- ``model.json``: ``format`` ("treelu.model"), ``version`` of the format, ``treelu`` (the version that wrote it),
  ``arrays`` (name, size and SHA-256 of the other file), ``model`` (kind, parameters, …, and from `treelu fit` the
  ``record`` of its table), ``beside`` (the names of other files that go with the model, such as reports), ``sha256`` of
  all this.
- ``arrays-….safetensors``: every array, by name; the dots are the first letters of its SHA-256.

Since the second file's name follows from its content, a model is replaced by writing new arrays beside the old ones
and then renaming a new ``model.json`` over the old one: at every moment the folder holds one whole model. Other files
of the folder are left alone.

Files are checked before they are used, and reading them runs no code from them. Whoever can write the files can also
write fitting checksums: these protect from accidents, the checks on every value from malice.

What is not saved: functions (``callbacks``, a ``schedule`` of your own) and generators of random numbers
(``random_state``), which only training uses: saving warns and keeps the parameter's default. What is saved beside the
model after ``partial_fit``: the rows it keeps (``stream_``), with which it continues training; delete that
attribute to save none.
"""

from treelu.persistence.files import FORMAT_VERSION, dumps, load, load_as_saved, loads, save
from treelu.persistence.values import ModelFileError

__all__ = ["FORMAT_VERSION", "ModelFileError", "dumps", "load", "load_as_saved", "loads", "save"]
