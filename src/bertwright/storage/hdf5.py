"""Read and write HDF5 files, which hold arrays by name (h5py; extra `elmo`).

The files are not trusted: a file that is truncated or not HDF5 raises an IntegrityError.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bertwright.errors import IntegrityError, MissingExtra


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """Open a file for reading, and yield a mapping of names to arrays. A slice of an array is read
    from the file when it is taken.
    """
    h5py = _h5py()
    try:
        with h5py.File(path, "r") as file:
            yield file
    except (OSError, RuntimeError) as error:
        raise IntegrityError(f"{path} is no HDF5 file, or truncated: {error}") from error


def array_names(file: Any) -> set[str]:
    """Return the names of all arrays in an open file, those in groups with their paths."""
    names: set[str] = set()
    file.visititems(lambda name, item: names.add(name) if hasattr(item, "shape") else None)
    return names


def write_arrays(path: Path, arrays: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Write arrays by name, and return their shapes by name."""
    shapes: dict[str, Any] = {}
    with _h5py().File(path, "w") as file:
        for name, array in arrays:
            file.create_dataset(name, data=array)
            shapes[name] = array.shape
    return shapes


def _h5py() -> Any:
    try:
        import h5py
    except ImportError as error:
        raise MissingExtra("elmo", "h5py", "reading and writing ELMo's .hdf5 files") from error
    return h5py
