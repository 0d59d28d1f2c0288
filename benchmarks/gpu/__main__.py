"""One call on a machine with one GPU: how fast, in use, and what pre-training buys.

    python -m benchmarks.gpu --out FILE [--minutes 8] [--smoke] [--text FILE.xz] [--sst2 FOLDER]
        [--parts speed use buys]

Run it in the root of the repository; nothing has to be installed but PyTorch, NumPy, SciPy,
scikit-learn, safetensors, tokenizers, threadpoolctl and, for what stands beside us, transformers
and sentence-transformers. Each part is a process of its own with its share of the minutes (speed
220 seconds of 8 minutes, use 110, buys what is left); a check that fails writes its traceback, the
next one runs; if the device is unusable after it, or its process died, a new process goes on with
the check after it. Each check is a JSON line of FILE, written before the next begins. Whether the
device computes the right numbers is checked by `pytest -m gpu -n 0 tests/gpu`.
Without --text and --sst2 the last part is left out, and says so. `--smoke` rehearses all parts on a
CPU with tiny sizes; what only CUDA can do is a check of its arguments.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SHARES = {"speed": 220.0, "use": 110.0, "buys": 150.0}
"""Seconds of 8 minutes; the last part takes what the others leave."""
GRACE, MOST_STARTS = 15.0, 8
"""Seconds after its share in which a part has to end; processes that a part may need."""


def main() -> None:
    """Run the parts."""
    arguments = parse()
    sys.path[:0] = [str(ROOT), str(ROOT / "src")]
    if arguments.part:
        run_part(arguments)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)  # threads of a peer, or of a check that was stopped, would keep the process
    if arguments.prepare:
        from .prepare import prepare

        prepare(arguments.text, arguments.work, arguments.smoke)
        return
    sys.exit(run_all(arguments))


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--out", type=Path, required=True, help="JSON lines are appended here")
    parser.add_argument("--minutes", type=float, default=8.0, help="of all parts")
    parser.add_argument("--smoke", action="store_true", help="a rehearsal on a CPU, tiny sizes")
    parser.add_argument("--text", type=Path, help="text to pre-train on (.txt, .txt.xz)")
    parser.add_argument("--sst2", type=Path, help="folder of SST-2: train.tsv and dev.tsv")
    parser.add_argument("--parts", nargs="+", default=list(SHARES), choices=list(SHARES))
    for hidden in ("part", "after"):
        parser.add_argument(f"--{hidden}", help=argparse.SUPPRESS)
    parser.add_argument("--ends", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--prepare", action="store_true", help=argparse.SUPPRESS)
    found = parser.parse_args()
    found.out = found.out.resolve()
    return found


def run_all(arguments: argparse.Namespace) -> int:
    """Every part in a process of its own; 0, or 1 where a check failed."""
    import tempfile

    from .record import read_lines

    began = time.time()
    ends = began + 60 * arguments.minutes
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    head = {"part": "call", "what": "begin", "smoke": arguments.smoke, "minutes": arguments.minutes}
    _append(arguments.out, head | {"python": sys.version.split()[0], "commit": _commit()})
    with tempfile.TemporaryDirectory() as work:
        preparing = _start_preparing(arguments, Path(work))
        scale = arguments.minutes / 8
        try:
            for number, part in enumerate(arguments.parts):
                is_last = number == len(arguments.parts) - 1
                # a rehearsal is to see every check through, on a busy CPU too
                takes_all = is_last or arguments.smoke
                until = ends if takes_all else min(ends, time.time() + SHARES[part] * scale)
                _run_one(arguments, part, until, Path(work))
        finally:
            if preparing is not None:
                preparing.kill()
    lines = read_lines(arguments.out)
    first = max(n for n, line in enumerate(lines) if line["what"] == "begin")
    own = lines[first:]
    failed = [f"{line['part']}: {line['what']}" for line in own if line.get("ok") is False]
    passed = sum(line.get("ok") is True for line in own)
    left_out = [f"{line['part']}: {line['what']}" for line in own if "skipped" in line]
    end: dict[str, Any] = {"part": "call", "what": "end", "seconds": round(time.time() - began, 1)}
    end |= {"passed": passed, "failed": failed, "skipped": left_out}
    _append(arguments.out, end)
    print(json.dumps(end), flush=True)
    return 1 if failed else 0


def _run_one(arguments: argparse.Namespace, part: str, ends: float, work: Path) -> None:
    """A part, with as many processes as its failures need."""
    begun = arguments.out.with_name(arguments.out.name + ".begun")
    after: str | None = None
    for _ in range(MOST_STARTS):
        begun.unlink(missing_ok=True)
        command = [sys.executable, "-m", "benchmarks.gpu", "--out", str(arguments.out)]
        command += ["--part", part, "--ends", str(ends), "--work", str(work)]
        command += ["--smoke"] if arguments.smoke else []
        command += ["--sst2", str(arguments.sst2.resolve())] if arguments.sst2 else []
        command += ["--text", str(arguments.text.resolve())] if arguments.text else []
        command += [f"--after={after}"] if after else []
        paths = [str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
        process = subprocess.Popen(command, cwd=ROOT, env=environment)
        try:
            code = process.wait(timeout=max(1.0, ends + GRACE - time.time()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            code = -9
        if code == 0:
            return
        check = begun.read_text(encoding="utf-8") if begun.exists() else None
        killed = {"ok": False, "error": f"its process ended with {code}", "check": check}
        _append(arguments.out, {"part": part, "what": "process", **killed})
        if check is None or time.time() > ends - 3:
            return
        after = check


def run_part(arguments: argparse.Namespace) -> None:
    """The checks of one part, in this process."""
    from .record import Checks, Record

    record = Record(arguments.out, arguments.part)
    try:
        import torch

        from .device import Device, rehearse_flash

        if not arguments.smoke and not torch.cuda.is_available():
            record.line("device", ok=False, error="PyTorch sees no GPU here; --smoke needs none")
            return
        place = torch.device("cpu") if arguments.smoke else torch.device("cuda", 0)
        device = Device(
            place, arguments.smoke, peak=record.found("card").get("bf16_tflops", 0.0) * 1e12
        )
        stand_in = rehearse_flash() if arguments.smoke else None
        checks = Checks(
            record, arguments.ends, device.wait, arguments.after, patient=arguments.smoke
        )
        if arguments.part == "speed":
            from . import speed

            speed.run(checks, device)
        elif arguments.part == "use":
            from . import in_use

            in_use.run(checks, device)
        else:
            from . import pretraining

            pretraining.run(checks, device, arguments.work, arguments.text, arguments.sst2)
        if stand_in is not None:
            widths = sorted(stand_in.head_sizes)
            record.line("calls of the kernel", calls=stand_in.calls, head_widths=widths)
    except Exception as error:
        trace = traceback.format_exc()
        print(trace, file=sys.stderr, flush=True)
        failure = f"{type(error).__name__}: {error}"
        record.line("part", ok=False, error=failure, traceback=trace)


def _start_preparing(arguments: argparse.Namespace, work: Path) -> Any:
    """Text to shards, beside the first parts, if the last one is asked for."""
    if "buys" not in arguments.parts or not (arguments.text or arguments.smoke):
        return None
    command = [sys.executable, "-m", "benchmarks.gpu", "--out", str(arguments.out), "--prepare"]
    command += ["--work", str(work), *(["--smoke"] if arguments.smoke else [])]
    command += ["--text", str(arguments.text.resolve())] if arguments.text else []
    paths = [str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    return subprocess.Popen(command, cwd=ROOT, env=environment)


def _append(file: Path, line: dict[str, Any]) -> None:
    with file.open("a", encoding="utf-8") as out:
        out.write(json.dumps(line) + "\n")


def _commit() -> str | None:
    with contextlib.suppress(OSError):
        command = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
        done = subprocess.run(command, capture_output=True, text=True)
        return done.stdout.strip() or None
    return None


if __name__ == "__main__":
    main()
