"""Command lines of each verb, which its `--help` shows last."""

from __future__ import annotations

EXAMPLES = """\
bertwright quickstart
bertwright tokenizer train corpus/ --out tokenizer
bertwright tokenizer inspect "An unbelievable story." --tokenizer tokenizer
bertwright tokenizer extend papers/ --model bert-base --out bert-papers
bertwright data build corpus/ --tokenizer tokenizer --out shards
bertwright data check shards
bertwright data stories --task two-facts --count 2000 --out two.txt
bertwright data trees wsj/train --out shards
bertwright pretrain --data shards --out runs/mine --minutes 30
bertwright pretrain --data shards --model bert-small --out small --steps 9000
bertwright pretrain --data shards --init bert-base --out runs/more --epochs 1
bertwright finetune classification --model mine --train reviews.csv --out r
bertwright finetune tagging --model mine --train a.conll --crf --out r
bertwright finetune generation --model mine --train summaries.csv --out r
bertwright evaluate --model runs/r --data test.tsv
bertwright evaluate --predictions out.json --kind span --data dev-v2.0.json
bertwright predict --model runs/r --input new.txt --out predictions.jsonl
bertwright glue --model runs/mine --data GLUE --out runs/glue
bertwright report runs/mine
bertwright perplexity test.txt --model lm
bertwright perplexity --model lm --pairs pairs.jsonl --by phenomenon
bertwright parse --model runs/parser "The dog chased its tail."
bertwright parse --model runs/parser --reference dev.mrg
bertwright answer story.txt --model runs/memory
bertwright attention --model mine "It was too tired." --out attention.html
bertwright attention --model mine --treebank trees/dev --coreference
bertwright attention --model runs/de-en "Ein Mann." "A man." --out a.html
bertwright generate --model lm "Once upon a time"
bertwright generate --model lm "Once" --sample --top-p 0.9 --num 3
bertwright translate --model runs/de-en "Ein Mann schläft."
bertwright translate --model runs/de-en --input test.de --out test.en
bertwright fill --model runs/mine "The capital of France is [MASK]."
bertwright next-sentence --model mine "It rained." "She took an umbrella."
bertwright embed --model runs/mine --input texts.txt --out vectors.npy
bertwright embed --model minilm --input a.csv --text body --out a.parquet
bertwright similar --model minilm --corpus texts.txt "a rainy day"
bertwright similar --model minilm --corpus a.txt --vectors a.npy "rain"
bertwright words nearest --model runs/w2v river
bertwright words analogy --model runs/w2v man king woman
bertwright words evaluate --model runs/w2v similarity.txt questions-words.txt
bertwright senses --model runs/mine
bertwright senses --model w2v --model runs/mine --word bank --out bank.html
bertwright export onnx --model runs/r --out onnx
bertwright export openvino --model minilm --out openvino --int8
bertwright convert bert_model.ckpt bert
bertwright convert runs/mine old --to tensorflow
bertwright convert runs/mine sentences --to sentence-transformers
bertwright inspect runs/mine
bertwright serve --model runs/mine
bertwright serve --model reviews=runs/r --model vectors=minilm --port 8081
bertwright info
"""


def examples(verb: str) -> list[str]:
    """The command lines of a verb."""
    return [line for line in EXAMPLES.splitlines() if f"{line} ".startswith(f"bertwright {verb} ")]


def epilogue(verb: str) -> str:
    """The last lines of a verb's help."""
    return "\n".join(["Examples:", *(f"  {line}" for line in examples(verb))])
