"""Three command lines a verb, which its `--help` shows last."""

from __future__ import annotations

EXAMPLES: dict[str, tuple[str, ...]] = {
    "quickstart": ("", "--minutes 2", "--out runs/first --json"),
    "tokenizer train": (
        "corpus/ --out tokenizer",
        "books.txt.xz --vocab-size 8000 --out tokenizer",
        "corpus/*.txt --special-tokens bert --out tokenizer",
    ),
    "tokenizer inspect": (
        '"An unbelievable story." --tokenizer tokenizer',
        "--tokenizer runs/mine Zürich",
        '"A story." --tokenizer tokenizer --json',
    ),
    "tokenizer extend": (
        "papers/ --model bert-base --out bert-papers",
        "papers/ --model mine --add 500 --out wider",
        "papers.txt --model mine --out wider --overwrite",
    ),
    "data build": (
        "corpus/ --tokenizer tokenizer --out shards",
        "lines.txt --documents line --tokenizer tok --out shards",
        "a.jsonl --text-column body --tokenizer tok --out shards",
    ),
    "data check": ("shards", "shards --json", "shards --model gpt-mini --sequence-length 256"),
    "data stories": (
        "one.txt",
        "two.txt --task two-facts --count 2000",
        "one.txt --seed 2 --overwrite",
    ),
    "data trees": (
        "wsj/train --out shards",
        "train.mrg --vocab-size 16000 --out shards",
        "train.mrg --leaves normalized --out shards",
    ),
    "pretrain": (
        "--data shards --out runs/mine --minutes 30",
        "--data shards --model bert-small --out small --steps 9000",
        "--data shards --init bert-base --out runs/more --epochs 1",
    ),
    "finetune": (
        "classification --model mine --train reviews.csv --out r",
        "tagging --model mine --train a.conll --crf --out r",
        "generation --model mine --train summaries.csv --out r",
    ),
    "evaluate": (
        "--model runs/r --data test.tsv",
        "--predictions out.json --kind span --data dev-v2.0.json",
        "--model runs/r --data test.tsv --out figures.json",
    ),
    "predict": (
        "--model runs/r --input new.txt --out predictions.jsonl",
        "--model runs/r --input - --out -",
        "--model r --input new.csv --text body --out out.jsonl",
    ),
    "glue": (
        "--model runs/mine --data GLUE --out runs/glue",
        "--model mine --data GLUE --out glue --tasks CoLA RTE",
        "--model runs/mine --data GLUE --out runs/glue --seeds 5",
    ),
    "report": ("runs/mine", "runs/r --out page.html", "runs/glue --json"),
    "perplexity": (
        "test.txt --model lm",
        "test.txt --model lm --model lm2 --tune dev.txt",
        "--model lm --pairs pairs.jsonl --by phenomenon",
    ),
    "parse": (
        '--model runs/parser "The dog chased its tail."',
        "--model runs/parser --input - --json",
        "--model runs/parser --reference dev.mrg",
    ),
    "answer": (
        "story.txt --model runs/memory",
        "story.txt --model runs/memory --json",
        "two.txt --model runs/two-facts",
    ),
    "attention": (
        '--model mine "It was too tired." --out attention.html',
        "--model mine --corpus texts.txt --json",
        "--model mine --treebank dev.conllu --coreference",
    ),
    "generate": (
        '--model lm "Once upon a time"',
        '--model lm "Once" --sample --top-p 0.9 --num 3',
        "--model lm --input prompts.txt --out texts.jsonl",
    ),
    "translate": (
        '--model runs/de-en "Ein Mann schläft."',
        "--model runs/de-en --input test.de --out test.en",
        "--model runs/de-en --input a.de --reference a.en",
    ),
    "fill": (
        '--model runs/mine "The capital of France is [MASK]."',
        '--model runs/mine --top 10 "A [MASK] day."',
        '--model runs/mine --json "A [MASK] day."',
    ),
    "next-sentence": (
        '--model mine "It rained." "She took an umbrella."',
        '--model runs/mine "It rained." "Two is even."',
        '--model mine "It rained." "We stayed in." --json',
    ),
    "embed": (
        "--model runs/mine --input texts.txt --out vectors.npy",
        "--model minilm --input a.csv --text body --out a.parquet",
        "--model minilm --input a.txt --pooling mean --out a.npy",
    ),
    "similar": (
        '--model minilm --corpus texts.txt "a rainy day"',
        '--model minilm --corpus texts.txt --top 3 "a rainy day"',
        '--model minilm --corpus texts.txt --json "a rainy day"',
    ),
    "words nearest": (
        "--model runs/w2v river",
        "--model vectors.bin --top 3 river bank",
        "--model runs/mine --layer 2 river",
    ),
    "words analogy": (
        "--model runs/w2v man king woman",
        "--model vectors.vec --top 3 paris france rome",
        "--model runs/w2v man king woman --json",
    ),
    "words evaluate": (
        "--model runs/w2v similarity.txt questions-words.txt",
        "--model runs/w2v --model vectors.bin similarity.txt",
        "--model runs/w2v similarity.txt --json",
    ),
    "senses": (
        "--model runs/mine",
        "--model w2v --model runs/mine --word bank --out bank.html",
        "bank.txt --word bank --clusters 3 --model runs/mine",
    ),
    "export onnx": (
        "--model runs/r --out onnx",
        "--model minilm --out onnx --int8",
        "--model runs/r --out onnx --overwrite",
    ),
    "export openvino": (
        "--model runs/r --out openvino",
        "--model minilm --out openvino --int8",
        "--model runs/r --out openvino --overwrite",
    ),
    "convert": (
        "bert_model.ckpt bert",
        "runs/mine old --to tensorflow",
        "runs/mine sentences --to sentence-transformers",
    ),
    "inspect": ("runs/mine", "bert-base", "runs/r --json"),
    "serve": (
        "--model runs/mine",
        "--model reviews=runs/r --model vectors=minilm --port 8081",
        "--model runs/mine --host 0.0.0.0 --api-keys keys.txt",
    ),
    "info": ("", "--json", "--measure"),
}
"""Verb -> what stands behind it."""


def epilogue(verb: str) -> str:
    """The last lines of a verb's help."""
    lines = [f"  bertwright {verb} {words}".rstrip() for words in EXAMPLES[verb]]
    return "\n".join(["Examples:", *lines])
