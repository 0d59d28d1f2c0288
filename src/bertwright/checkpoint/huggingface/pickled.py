"""`pytorch_model.bin`, a pickle: opened in a process of its own, and never but to be converted.

Opening a pickle runs what is in it. So its instructions are first listed without running one, and
whatever names a function that weights do not need is refused at once. PyTorch's `weights_only` then
reads the few forms that weights need. In case both err, the process that reads has no more memory
and time than weights take, and leaves a safetensors file, from which all that follows is read as
from any other folder. Only a file of this name, or its numbered shards, is taken for weights.
"""

from __future__ import annotations

import os
import pickletools
import re
import subprocess
import sys
import zipfile
from pathlib import Path

from bertwright.errors import DataError, IntegrityError

NAME = "pytorch_model.bin"

_SHARD = re.compile(r"pytorch_model-(\d{5})-of-(\d{5})\.bin")
_SECONDS = 60
_BYTES_A_SECOND = 50 << 20
_ROOM = 1 << 30
"""Bytes for what reading needs beside the weights, which are there up to four times."""
_LARGEST_PROGRAM = 1 << 20
"""Bytes of instructions: a BERT Large has under 100 KB of them."""
_NAMING = ("GLOBAL", "INST")
_NEEDED = re.compile(
    r"torch\._utils _rebuild_(?:tensor(?:_v2)?|parameter)|collections OrderedDict"
    r"|torch (?:Float|Half|BFloat16|Double|Long|Int|Byte|Bool)Storage"
)
_ARCHIVE = b"PK\x03\x04"
_OF_PICKLES = (_ARCHIVE, b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")


def pickles_of(folder: Path) -> list[Path]:
    """The weights of a folder that are pickles: one file, or all its shards in order.

    Raises:
        IntegrityError: shards are missing.
    """
    if (folder / NAME).is_file():
        return [folder / NAME]
    found = sorted(
        path for path in folder.glob("pytorch_model-*.bin") if _SHARD.fullmatch(path.name)
    )
    if found:
        last = _SHARD.fullmatch(found[-1].name)
        if last is None or len(found) != int(last[2]) or int(last[1]) != int(last[2]):
            raise IntegrityError(f"{folder} has {len(found)} shards of {NAME}; some are missing")
    return found


def is_pickle(path: Path) -> bool:
    """Whether a file begins as pickles and PyTorch's archives do."""
    with path.open("rb") as file:
        return file.read(4).startswith(_OF_PICKLES)


def screen(path: Path) -> None:
    """Refuse a pickle that names what weights do not need; nothing of it is run.

    Files of PyTorch before 1.6 are no archives; `weights_only` judges them alone.

    Raises:
        DataError: it names something else, has far more instructions than weights need, or is
            compressed, which PyTorch's never are.
        IntegrityError: it is cut, damaged or encrypted.
    """
    with path.open("rb") as file:
        if not file.read(4).startswith(_ARCHIVE):
            return
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            if any(member.compress_type != zipfile.ZIP_STORED for member in members):
                raise DataError(f"{path} is compressed, as weights of PyTorch never are")
            programs = [member for member in members if member.filename.endswith(".pkl")]
            size = sum(member.file_size for member in programs)
            if size > _LARGEST_PROGRAM:
                raise DataError(
                    f"{path} has {size} bytes of instructions; weights need fewer than "
                    f"{_LARGEST_PROGRAM}"
                )
            for member in programs:
                for operation, argument, _ in pickletools.genops(archive.read(member)):
                    if operation.name in _NAMING and not _NEEDED.fullmatch(str(argument)):
                        raise DataError(
                            f"{path} calls '{str(argument)[:80].replace(' ', '.')}', which no "
                            "weights need: it is refused, and nothing of it was run"
                        )
    except (zipfile.BadZipFile, ValueError, EOFError, OSError, RuntimeError) as error:
        if isinstance(error, DataError):
            raise
        raise IntegrityError(f"{path} is cut or damaged ({error})") from error


def unpickle(pickles: list[Path], out: Path) -> None:
    """Write the tensors of pickles as one safetensors file.

    Raises:
        DataError: they hold more than weights, or need more than weights do.
    """
    for path in pickles:
        screen(path)
    size = sum(path.stat().st_size for path in pickles)
    seconds = _SECONDS + size // _BYTES_A_SECOND
    program = [sys.executable, "-P", "-m", "bertwright.checkpoint.huggingface.unpickling"]
    limits = [str(_ROOM + 4 * size), str(seconds)]
    try:
        done = subprocess.run(
            [*program, *limits, str(out), *map(str, pickles)],
            capture_output=True,
            text=True,
            timeout=seconds,
            env=_environment(),
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise DataError(
            f"{pickles[0]} took more than {seconds} s to open; it was given up"
        ) from error
    if done.returncode != 0 or not out.is_file():
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        why = lines[-1][:300] if lines else f"the process ended with {done.returncode}"
        raise DataError(f"{pickles[0]} is no pickle of weights alone, and was given up ({why})")


def _environment() -> dict[str, str]:
    """What the process is told: where packages are, and one thread."""
    kept = ("PATH", "LD_LIBRARY_PATH", "SYSTEMROOT", "VIRTUAL_ENV")
    found = {name: os.environ[name] for name in kept if name in os.environ}
    package = str(Path(__file__).resolve().parents[2])
    return {**found, "PYTHONPATH": package, "OMP_NUM_THREADS": "1"}
