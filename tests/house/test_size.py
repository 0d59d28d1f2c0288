"""Size is a feature: how many lines the systems on the road to BERT need, each half of them."""

from __future__ import annotations

import pytest

from tests.house.source import PACKAGE, modules
from tests.house.test_files import lines_of_code

COUNTED = """
    models/awd_lstm models/elmo models/ngram models/nnlm models/word_vectors
    nn/characters nn/crf objectives/both_directions objectives/answer objectives/next_token
    objectives/ngrams objectives/word_vectors data/token_streams data/ngrams/* data/stories/*
    data/word_vectors/* inference/word_vectors/table checkpoint/arpa checkpoint/elmo
    checkpoint/word_vectors/* checkpoint/native/* recipes/language_models recipes/own_loop
    recipes/road/* config/runs/language_models config/runs/memory_network
    config/runs/word_vectors cli/stories
"""
"""N-grams, NNLM, word2vec, GloVe, fastText, TagLM, CoVe, ELMo, ULMFiT, memory networks."""
ATTENTIVE = """
    models/gpt models/seq2seq models/transformer nn/cache nn/search objectives/generator
    objectives/translation data/parallel/* inference/generate inference/translation/*
    recipes/translation tasks/generation tasks/generation_metrics text/treebank/trees
    checkpoint/average checkpoint/huggingface/gpt config/generation config/runs/gpt
    config/runs/translation
"""
"""seq2seq, the Transformer, parsing, GPT, left-to-right BERT, generation with BERT."""


@pytest.mark.parametrize(("files", "most"), [(COUNTED, 4000), (ATTENTIVE, 2500)])
def test_systems_are_small(files: str, most: int) -> None:
    """Lines of code, as the limit of a file counts them."""
    places = {path for name in files.split() for path in PACKAGE.glob(f"{name}.py")}
    found = [module for module in modules().values() if module.path in places]
    assert len(found) >= len(files.split())
    code = sum(map(lines_of_code, found))
    assert code <= most, f"{code} lines of code, {sum(len(m.text.splitlines()) for m in found)} all"
