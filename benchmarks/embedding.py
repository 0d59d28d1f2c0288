"""Sentences a second of a sentence-transformers model, ours beside its own library.

    python benchmarks/embedding.py rate MODEL --texts FILE [--texts FILE ...] [--threads 2]
        [--onnx DIR] [--openvino DIR] [--rounds 3] [--most 2000]
    python benchmarks/embedding.py million MODEL --out FOLDER [--count 1000000] [--kill]
    python benchmarks/embedding.py early MODEL12 --texts FILE

`rate`: every system embeds the same texts, shuffled, one text a line of the files, in turns, the
best of the rounds counts. sentence-transformers runs as it comes (float32, batches of 32), with
dtype bfloat16 and, where their packages are installed, with its onnx and openvino backends; DIR is
a copy of the model with `onnx/model.onnx` (or openvino), as
`SentenceTransformer(MODEL, backend="onnx").save_pretrained(DIR)` writes it; they need beyond
`.[dev]`: `pip install "sentence-transformers[onnx]"`, or `"[openvino]"`, in a virtual environment
of their own. Ours is float32, bfloat16 and int8. It also prints the largest difference of vectors
in float32, and the least and mean cosine of the faster ones with float32.

`million`: made-up short sentences to `.npy` by the command line: rate, peak memory; with --kill the
run is killed in the middle and gone on with, and the files are held against each other.

`early`: layer -2 against the last of a model of 12 layers; for a rate, random weights do.

One JSON line a result, the machine first.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from machine import machine

sys.path.append(str(Path(__file__).resolve().parents[1] / "experiments"))
from needs import needs


def read_texts(files: list[str], most: int) -> list[str]:
    """Lines that are not empty, the same number of each file, shuffled."""
    texts = []
    for name in files:
        lines = [line for line in Path(name).read_text("utf-8").split("\n") if line.strip()]
        random.Random(0).shuffle(lines)
        texts += lines[: most // len(files)]
    random.Random(1).shuffle(texts)
    return texts


def systems(args: argparse.Namespace, texts: list[str]) -> dict[str, Callable[[], Any]]:
    """Name -> a call that embeds all texts."""
    from sentence_transformers import SentenceTransformer

    from bertwright.errors import BertwrightError
    from bertwright.inference.model import load

    peers = {
        "peer fp32": SentenceTransformer(args.model, device="cpu"),
        "peer bf16": SentenceTransformer(
            args.model, device="cpu", model_kwargs={"dtype": torch.bfloat16}
        ),
    }
    for backend in ("onnx", "openvino"):
        folder = getattr(args, backend)
        if folder:
            needs("optimum", f'"sentence-transformers[{backend}]"')
            peers[f"peer {backend}"] = SentenceTransformer(folder, device="cpu", backend=backend)
    found: dict[str, Callable[[], Any]] = {
        name: partial(peer.encode, texts, show_progress_bar=False) for name, peer in peers.items()
    }
    for precision in ("fp32", "bf16", "int8"):
        try:
            ours = load(args.model).embedder(precision=precision, sample=texts[:128])
        except BertwrightError as error:
            print(json.dumps({"left out": precision, "why": str(error)}))
            continue
        print(json.dumps({"system": f"ours {precision}", "notes": ours.notes}))
        found[f"ours {precision}"] = partial(ours.embed, texts)
    return found


def rate(args: argparse.Namespace) -> None:
    """Sentences a second, and how far vectors are apart."""
    torch.set_num_threads(args.threads)
    texts = read_texts(args.texts, args.most)
    calls = systems(args, texts)
    best: dict[str, float] = {}
    vectors: dict[str, Any] = {}
    for call in calls.values():
        call()
    for _ in range(args.rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            vectors[name] = np.asarray(call(), np.float32)
            best[name] = max(best.get(name, 0.0), len(texts) / (time.perf_counter() - start))
    exact = vectors["peer fp32"]
    for name, each in vectors.items():
        cosines = (each * exact).sum(1)
        cosines /= np.linalg.norm(each, axis=1) * np.linalg.norm(exact, axis=1)
        facts = {
            "system": name,
            "sentences_per_second": round(best[name], 1),
            "largest_difference": float(np.abs(each - exact).max()),
            "least_cosine": float(cosines.min()),
            "mean_cosine": float(cosines.mean()),
        }
        print(json.dumps(facts))
    default = best["peer fp32"]
    others = [rate for name, rate in best.items() if name.startswith("peer")]
    for name in [name for name in best if name.startswith("ours")]:
        over = {"over_default": best[name] / default, "over_best": best[name] / max(others)}
        print(json.dumps({"system": name, **{k: round(v, 2) for k, v in over.items()}}))


def million(args: argparse.Namespace) -> None:
    """Short sentences to `.npy`."""
    folder = Path(args.out)
    folder.mkdir(parents=True, exist_ok=True)
    source, out = folder / "sentences.txt", folder / "vectors.npy"
    chance = random.Random(0)
    nouns = ["man", "woman", "dog", "cat", "child", "house", "river", "road", "tree", "song"]
    verbs = ["sees", "finds", "likes", "leaves", "follows", "hears", "draws", "wants"]
    with source.open("w", encoding="utf-8") as file:
        for n in range(args.count):
            a, b = chance.choice(nouns), chance.choice(nouns)
            file.write(f"The {a} {chance.choice(verbs)} a {b} number {n}.\n")
    words = [sys.executable, "-m", "bertwright", "embed", "--model", args.model]
    words += ["--input", str(source), "--out", str(out), "--precision", "bf16", "--json"]
    start = time.perf_counter()
    if args.kill:
        process = subprocess.Popen([*words, "--overwrite"])
        parts = out.with_name(f"{out.name}.parts")
        while (rows := _rows(parts)) < args.count // 2:
            if process.poll() is not None:
                sys.exit(process.returncode or "it ended before it could be killed: raise --count")
            time.sleep(0.2)
        process.send_signal(signal.SIGKILL)
        process.wait()
        print(json.dumps({"killed_at": rows}))
        subprocess.run([*words, "--resume"], check=True)
    else:
        subprocess.run([*words, "--overwrite"], check=True)
    seconds = time.perf_counter() - start
    facts = {
        "texts": args.count,
        "seconds": round(seconds, 1),
        "texts_per_second": round(args.count / seconds, 1),
        "peak_mb": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024,
        "shape": list(np.load(out, mmap_mode="r").shape),
        "sha256": hashlib.sha256(out.read_bytes()).hexdigest(),
    }
    print(json.dumps(facts))


def _rows(parts: Path) -> int:
    """Return the number of rows in the parts of an unfinished file."""
    return sum(json.loads(part.read_text())["rows"] for part in parts.glob("[0-9]*.json"))


def early(args: argparse.Namespace) -> None:
    """What stopping one layer below the top gains."""
    torch.set_num_threads(args.threads)
    from bertwright.config.vectors import VectorConfig
    from bertwright.inference.model import load

    texts = read_texts(args.texts, args.most)
    model = load(args.model)
    makers = {n: model.embedder(VectorConfig((n,))) for n in (-1, -2)}
    best = dict.fromkeys(makers, 0.0)
    for _ in range(args.rounds):
        for layer, maker in makers.items():
            start = time.perf_counter()
            maker.embed(texts)
            best[layer] = max(best[layer], len(texts) / (time.perf_counter() - start))
    print(json.dumps({"last": best[-1], "below_last": best[-2], "gain": best[-2] / best[-1]}))


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("rate", "million", "early"))
    parser.add_argument("model")
    parser.add_argument("--texts", action="append", default=[])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--most", type=int, default=2000)
    parser.add_argument("--onnx")
    parser.add_argument("--openvino")
    parser.add_argument("--out", default="million")
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--kill", action="store_true")
    args = parser.parse_args()
    if args.what != "million" and not args.texts:
        parser.error(f"{args.what} needs --texts FILE")
    print(json.dumps({"machine": machine()}), flush=True)
    {"rate": rate, "million": million, "early": early}[args.what](args)


if __name__ == "__main__":
    main()
