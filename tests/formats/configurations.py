"""The tiny runs: of every system and of every kind of task, and the files of other programs."""

from __future__ import annotations

from typing import Any

from tests.formats.sample_data import files

TRANSFORMER = {
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": 40,
}
FEED_FORWARD = {"intermediate_size": 12}
DROPOUT = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
STEPS = {
    "steps": 12,
    "validation": {"fraction": 0.1, "tokens": 512, "every_steps": 6},
    "batch": {"tokens": 256, "micro_tokens": 128},
    "checkpoint": {"every_steps": 6},
    "log": {"every_steps": 1},
}
VECTORS = {"workers": 1, "epochs": 4}
BERT = {"architecture": {**TRANSFORMER, **FEED_FORWARD}, "instances": {"sequence_length": 32}}
PRETRAINED: dict[str, dict[str, Any]] = {
    "bert": {
        **STEPS, "data": "shards/wordpiece", "model": "bert-tiny", **BERT,
        "optimizer": {"learning_rate": 5e-3},
    },
    # as published: random weights, AdamW, dropout, sentence order, whole words, longer at the end
    "bert-paper": {
        **STEPS, "data": "shards/wordpiece", "model": "bert-tiny",
        "architecture": {**BERT["architecture"], **DROPOUT},
        "instances": {"sequence_length": 16, "objectives": "mlm+sop"},
        "long_phase": {"fraction": 0.3, "sequence_length": 32},
        "masking": {"whole_word": True},
        "start": {
            "aimed_heads": False, "counted_vectors": False, "frequency_bias": False,
            "embedding_std": 0.02,
        },
        "optimizer": {"matrices": "adamw", "layer_decay": 0.9},
    },
    "bert-continued": {
        **STEPS, "data": "shards/wordpiece", "init": "bert",
        "instances": {"sequence_length": 24, "objectives": "mlm"},
    },
    "bert-ltr": {
        **STEPS, "data": "shards/wordpiece", "model": "bert-tiny-ltr",
        "architecture": {**TRANSFORMER, **FEED_FORWARD}, "sequence_length": 24,
    },
    "gpt": {
        **STEPS, "data": "shards/bpe", "model": "gpt-mini", "architecture": TRANSFORMER,
        "sequence_length": 24, "burn_in": 4,
    },
    "gpt2": {
        **STEPS, "data": "shards/byte-bpe", "model": "gpt2-mini",
        "architecture": {**TRANSFORMER, **DROPOUT}, "sequence_length": 24,
        "schedule": {"curve": "inverse-sqrt", "warmup": 0.2},
    },
    "elmo": {
        **STEPS, "data": "shards/word", "model": "elmo-mini", "sequence_length": 16,
        "architecture": {"dim": 6, "projection_dim": 4, "output_size": 40, "cell_clip": 3.0,
                         "proj_clip": 3.0},
    },
    "elmo-forward": {
        **STEPS, "data": "shards/word", "model": "elmo-mini", "sequence_length": 16,
        "architecture": {"dim": 6, "projection_dim": 4, "direction": "forward",
                         "negative_samples": 20},
    },
    "awd-lstm": {
        **STEPS, "data": "shards/word", "model": "awd-lstm-small", "sequence_length": 16,
        "architecture": {"embedding_size": 10, "hidden_size": 14, "dropout_scale": 0.5},
        "schedule": {"curve": "slanted"},
    },
    "nnlm": {
        **STEPS, "data": "shards/character", "model": "nnlm-small", "sequence_length": 24,
        "architecture": {"hidden_size": 10, "context_size": 3, "direct_connections": True},
    },
    "ngram": {"data": "shards/word", "model": "ngram", "architecture": {"order": 3},
              "prune": [0, 0, 1], "validation": {"fraction": 0.1}},
    "ngram-add-k": {"data": "shards/unknown", "model": "ngram", "smoothing": "add-k",
                    "architecture": {"order": 2}, "validation": {"fraction": 0.1}},
    "word2vec": {**VECTORS, "data": "shards/unknown", "model": "word2vec-skip-gram",
                 "architecture": {"hidden_size": 10}},
    "word2vec-cbow": {
        **VECTORS, "data": "shards/word", "model": "word2vec-cbow", "subsample": 0.0,
        "architecture": {"hidden_size": 10, "loss": "hierarchical-softmax"},
    },
    "fasttext": {**VECTORS, "data": "shards/unknown", "model": "fasttext-skip-gram",
                 "architecture": {"hidden_size": 10, "buckets": 90}},
    "fasttext-cbow": {**VECTORS, "data": "shards/unknown", "model": "fasttext-cbow",
                      "architecture": {"hidden_size": 10, "buckets": 40, "max_n": 4}},
    "glove": {**VECTORS, "data": "shards/word", "model": "glove",
              "architecture": {"hidden_size": 10}},
    "transformer": {
        **STEPS, "data": "shards/pairs", "model": "transformer-small", "sequence_length": 24,
        "architecture": {**TRANSFORMER, **FEED_FORWARD},
        "optimizer": {"learning_rate": 1e-2},
    },
    "parser": {
        **STEPS, "data": "shards/trees", "model": "transformer-small", "sequence_length": 40,
        "architecture": {**TRANSFORMER, **FEED_FORWARD, "norm": "pre"},
        "optimizer": {"matrices": "muon", "learning_rate": 1e-2},
    },
    "bert2rnd": {
        **STEPS, "data": "shards/pairs", "model": "bert2rnd", "encoder": "bert",
        "architecture": {"num_decoder_layers": 1}, "sequence_length": 24,
    },
    "seq2seq": {
        **STEPS, "data": "shards/pairs", "model": "seq2seq-base", "sequence_length": 24,
        "architecture": {"embedding_size": 10, "hidden_size": 12, "attention": "multiplicative"},
        "optimizer": {"learning_rate": 1e-2},
    },
    "seq2seq-additive": {
        **STEPS, "data": "shards/pairs", "model": "seq2seq-small", "sequence_length": 24,
        "architecture": {"embedding_size": 8, "hidden_size": 12, "attention": "additive",
                         "input_feeding": False},
    },
    "cove": {
        **STEPS, "data": "shards/word-pairs", "model": "seq2seq-cove", "sequence_length": 24,
        "word_vectors": "glove",
        "architecture": {"embedding_size": 10, "hidden_size": 8, "attention": "multiplicative"},
    },
    "memory-network": {
        **STEPS, "data": "shards/stories", "model": "memory-network", "longest_story": 64,
        "architecture": {"hidden_size": 10, "memory_size": 6},
        "optimizer": {"learning_rate": 2e-2},
    },
}  # fmt: skip
"""Name of a run -> its configuration; `out` is the name."""

TUNED = {
    "epochs": 2.0, "learning_rate": 5e-3, "batch_size": 8, "max_length": 32, "stride": 8,
    "precision": "fp32", "device": "cpu", "seed": 3,
}  # fmt: skip
FEATURES = {**TUNED, "transfer": "features"}


FINETUNED: dict[str, tuple[str, dict[str, Any]]] = {
    "task-classification": ("classification", {**TUNED, "model": "bert", "baselines": True}),
    "task-multi-label": ("multi-label", {**TUNED, "model": "bert", "multi_label": True}),
    "task-regression": ("regression", {**TUNED, "model": "bert", "seeds": 2}),
    "task-tagging": ("tagging", {**TUNED, "model": "bert", "context": "document"}),
    "task-span": ("span", {**TUNED, "model": "bert"}),
    "task-multiple-choice": ("multiple-choice", {**TUNED, "model": "bert"}),
    "task-generation": ("generation", {**TUNED, "model": "bert", "max_target_tokens": 12}),
    "task-multitask": ("multitask", {k: v for k, v in TUNED.items() if k not in
                                     ("max_length", "stride")} | {"model": "bert"}),
    "task-top": ("pair", {**TUNED, "model": "bert-paper", "transfer": "top-1", "pooling": "max",
                          "hidden_size": 6, "class_weights": "balanced"}),
    # GPT reads pairs and choices its own way, beside its language model
    "task-gpt-pair": ("pair", {**TUNED, "model": "gpt", "language_model": 0.5,
                               "both_orders": True}),
    "task-gpt-choice": ("multiple-choice", {**TUNED, "model": "gpt"}),
    "task-gpt2-generation": ("generation", {**TUNED, "model": "gpt2", "max_target_tokens": 12}),
    "task-ltr-regression": ("regression", {**TUNED, "model": "bert-ltr"}),
    # ELMo's mix under a biLSTM and a CRF; TagLM; ULMFiT; CoVe; word vectors
    "task-elmo": ("tagging", {**FEATURES, "model": "elmo", "layers": "mix", "crf": True,
                              "network": "bilstm"}),
    "task-crf": ("tagging", {**FEATURES, "model": "bert", "layers": "mix", "crf": True,
                             "network": "bilstm"}),
    "task-taglm": ("tagging", {**FEATURES, "model": "awd-lstm", "layers": "last", "crf": True,
                               "network": "taglm"}),
    "task-ulmfit": ("classification", {**TUNED, "model": "awd-lstm", "transfer": "gradual",
                                       "pooling": "last+max+mean", "hidden_size": 6}),
    "task-cove": ("classification", {**FEATURES, "model": "cove", "layers": "embeddings+last",
                                     "network": "bilstm"}),
    "task-fasttext": ("classification", {**FEATURES, "model": "fasttext"}),
    "task-word2vec-tagging": ("tagging", {**FEATURES, "model": "word2vec", "network": "bilstm"}),
    "task-transformer-span": ("span", {**TUNED, "model": "transformer"}),
}  # fmt: skip
"""Name of a run -> the name of its labelled files, and its configuration."""
UNITS = 4
"""Units of the LSTMs of stored heads."""
MULTITASK = {
    "topics": {"kind": "classification", **files("classification"), "max_length": 32, "stride": 8},
    "entities": {"kind": "tagging", **files("tagging"), "max_length": 32, "stride": 8,
                 "weight": 2.0},
    "grade": {"kind": "regression", **files("regression"), "max_length": 32, "stride": 8},
}  # fmt: skip

# Foreign files, and what is read from them.

FOREIGN: dict[str, tuple[str, str, str]] = {
    "bert-tensorflow": ("bert", "tensorflow", "foreign/bert-tensorflow"),
    "bert-sentence-transformers": (
        "bert",
        "sentence-transformers",
        "foreign/bert-sentence-transformers",
    ),
    "elmo-published": ("elmo", "elmo", "foreign/elmo"),
    "vectors-text": ("word2vec", "word2vec", "foreign/vectors.txt"),
    "vectors-binary": ("glove", "word2vec", "foreign/vectors.bin"),
    "vectors-fasttext": ("fasttext", "fasttext", "foreign/fasttext.bin"),
    "vectors-fasttext-cbow": ("fasttext-cbow", "fasttext", "foreign/fasttext-cbow.bin"),
    "arpa": ("ngram", "arpa", "foreign/ngram.arpa"),
}
"""Name of a folder that is read from a foreign file -> the run, `--to` and the file."""
# What is computed with a run.


CONVERTED = "converted-"
"""What the name of a run's copy begins with that `bertwright convert` wrote."""

# Fine-tuning.
