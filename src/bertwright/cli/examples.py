"""Example command lines of each verb, which its `--help` shows at the end."""

from __future__ import annotations

EXAMPLES = """\
bertwright quickstart
bertwright quickstart --minutes 2
bertwright quickstart --open
bertwright compare --preset python --out runs/ladder
bertwright compare corpus/ --train a.tsv --test b.tsv --out runs/ladder
bertwright compare corpus/ --systems bert gpt2 ngram --out runs/ladder
bertwright tokenizer train corpus/ --out tokenizer
bertwright tokenizer train books.txt.xz --vocab-size 8000 --out tokenizer
bertwright tokenizer train corpus/*.txt --special-tokens bert --out tokenizer
bertwright tokenizer inspect "An unbelievable story." --tokenizer tokenizer
bertwright tokenizer inspect --tokenizer runs/mine Zürich
bertwright tokenizer inspect --tokenizer tokenizer unbelievable --json
bertwright tokenizer extend papers/ --model bert-base --out bert-papers
bertwright tokenizer extend papers/ --model mine --add 500 --out wider
bertwright tokenizer extend notes.txt --model mine --out mine-notes --json
bertwright data build corpus/ --tokenizer tokenizer --out shards
bertwright data build lines.txt --documents line --tokenizer tok --out shards
bertwright data build a.jsonl --text-column body --tokenizer tok --out shards
bertwright data check shards
bertwright data check shards --model gpt-mini --sequence-length 256
bertwright data check shards --json
bertwright data stories --out one.txt
bertwright data stories --task two-facts --count 2000 --out two.txt
bertwright data stories --task counting --seed 2 --out counting.txt
bertwright data trees wsj/train --out shards
bertwright data trees train.mrg --vocab-size 16000 --out shards
bertwright data trees train.mrg --tokenizer runs/bert --out shards
bertwright pretrain --config half-hour --data shards --out mine
bertwright pretrain --data shards --model bert-small --out small --steps 9000
bertwright pretrain --data shards --init bert-base --out runs/more --epochs 1
bertwright finetune classification --model mine --train reviews.csv --out r
bertwright finetune tagging --model mine --train a.conll --crf --out r
bertwright finetune generation --model mine --train summaries.csv --out r
bertwright evaluate --model runs/r --data test.tsv
bertwright evaluate --predictions out.json --kind span --data dev-v2.0.json
bertwright evaluate --model runs/r --data test.tsv --out figures.json
bertwright evaluate-vectors --model minilm --data sts-test.csv
bertwright evaluate-vectors --model runs/mine --data sts.tsv --label score
bertwright evaluate-vectors --model minilm --data sts-test.csv --json
bertwright evaluate-search --model minilm --data scifact
bertwright evaluate-search --model runs/s --data scifact/qrels/dev.tsv
bertwright evaluate-search --model minilm --data scifact --out figures.json
bertwright predict --model runs/reviews "a wonderful film"
bertwright predict --model runs/r --input new.txt --out predictions.jsonl
bertwright predict --model runs/r --input - --out -
bertwright predict --model r --input new.csv --text body --out out.jsonl
bertwright glue --model runs/mine --data GLUE --out runs/glue
bertwright glue --model mine --data GLUE --out glue --tasks CoLA RTE
bertwright glue --model runs/mine --data GLUE --out runs/glue --seeds 5
bertwright report runs/mine
bertwright report runs/r --out page.html
bertwright report runs/glue/CoLA
bertwright perplexity test.txt --model lm
bertwright perplexity test.txt --model lm --model lm2 --tune dev.txt
bertwright perplexity --model lm --pairs pairs.jsonl --by phenomenon
bertwright parse --model runs/parser "The dog chased its tail."
bertwright parse --model runs/parser --reference dev.mrg
bertwright parse --model runs/parser --input sentences.txt --out trees.mrg
bertwright answer story.txt --model runs/memory
bertwright answer two.txt --model runs/two-facts
bertwright answer story.txt --model runs/memory --json
bertwright attention --model mine "It was too tired." --out attention.html
bertwright attention --model mine --corpus texts.txt
bertwright attention --model runs/de-en "Ein Mann." "A man." --out a.html
bertwright generate --model lm "Once upon a time"
bertwright generate --model lm "Once" --sample --top-p 0.9 --num 3
bertwright generate --model lm --input prompts.txt --out texts.jsonl
bertwright translate --model runs/de-en "Ein Mann schläft."
bertwright translate --model runs/de-en --input test.de --out test.en
bertwright translate --model runs/de-en --input a.de --reference a.en
bertwright fill --model runs/mine "The capital of France is [MASK]."
bertwright fill --model runs/mine --top 10 "A [MASK] day."
bertwright fill --model bert-base "[MASK] is red." --json
bertwright next-sentence --model mine "It rained." "She took an umbrella."
bertwright next-sentence --model runs/mine "It rained." "Two is even."
bertwright next-sentence --model mine "It rained." "So she ran." --json
bertwright embed --model runs/mine --input texts.txt --out vectors.npy
bertwright embed --model minilm --input a.csv --text body --out a.parquet
bertwright embed --model minilm --input a.txt --pooling mean --out a.npy
bertwright whiten --model runs/mine --input texts.txt --out white.npz
bertwright whiten --model mine --input a.txt --out w.npz --dimensions 256
bertwright whiten --model mine --input a.csv --layers 0,-1 --out w.npz
bertwright plot --model runs/mine --input texts.txt --out texts.html
bertwright plot --model minilm --input a.csv --color topic --out a.html
bertwright plot --model minilm --input a.csv --projection tsne --out a.html
bertwright similar --model minilm --corpus texts.txt "a rainy day"
bertwright similar --model minilm --corpus texts.txt --top 3 "a rainy day"
bertwright similar --model minilm --corpus a.txt --vectors a.npy "rain"
bertwright mine --model minilm --pairs pairs.tsv --out hard.jsonl
bertwright mine --model runs/s --pairs pairs.tsv --count 5 --out hard.jsonl
bertwright mine --model minilm --pairs a.tsv --corpus b.txt --out c.jsonl
bertwright words nearest --model runs/w2v river
bertwright words nearest --model vectors.bin --top 3 river bank
bertwright words nearest --model runs/mine --layer 2 river
bertwright words analogy --model runs/w2v man king woman
bertwright words analogy --model vectors.vec --top 3 paris france rome
bertwright words analogy --model runs/w2v walk walked go --json
bertwright words evaluate --model runs/w2v similarity.txt questions-words.txt
bertwright words evaluate --model runs/w2v --model vectors.bin similarity.txt
bertwright words evaluate --model runs/w2v questions-words.txt --json
bertwright senses --model runs/mine
bertwright senses --model w2v --model runs/mine --word bank --out bank.html
bertwright senses bank.txt --word bank --clusters 3 --model runs/mine
bertwright export onnx --model runs/r --out onnx
bertwright export onnx --model minilm --out onnx --int8
bertwright export onnx --model runs/gpt --out onnx
bertwright export openvino --model runs/r --out openvino
bertwright export openvino --model minilm --out openvino --int8
bertwright export openvino --model runs/de-en --out openvino
bertwright convert bert_model.ckpt bert
bertwright convert runs/mine old --to tensorflow
bertwright convert runs/mine sentences --to sentence-transformers
bertwright inspect runs/mine
bertwright inspect bert-base
bertwright inspect runs/r --json
bertwright serve --model runs/mine
bertwright serve --model reviews=runs/r --model vectors=minilm --port 8081
bertwright serve --model runs/mine --host 0.0.0.0 --api-keys keys.txt
bertwright info
bertwright info --json
"""


def examples(verb: str) -> list[str]:
    """Return the example command lines of a verb."""
    return [line for line in EXAMPLES.splitlines() if f"{line} ".startswith(f"bertwright {verb} ")]


def epilogue(verb: str) -> str:
    """Return the end of a verb's help, which lists the examples."""
    return "\n".join(["Examples:", *(f"  {line}" for line in examples(verb))])
