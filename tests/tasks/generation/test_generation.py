"""Generation: a source with its target as an instance, the search, and the metrics."""

from __future__ import annotations

import sys
from itertools import product

import pytest
import torch

from bertwright.config.generation import GenerationConfig
from bertwright.decoding.texts import ends_of
from bertwright.errors import ConfigError, DataError, MissingExtra
from bertwright.labelled.examples import GenerationExample
from bertwright.models.bert.config import BertConfig
from bertwright.models.bert.encoder import bert_spec
from bertwright.nn.finite import NotFinite
from bertwright.nn.objective import Learner
from bertwright.nn.sequences import Inputs, Sequences
from bertwright.tasks.evaluate import evaluate
from bertwright.tasks.generation.kind import GenerationKind, Generator
from bertwright.tasks.generation.options import GenerationOptions, GenerationTask
from bertwright.tasks.predict import predict
from bertwright.tasks.predictions import GenerationPrediction
from bertwright.tasks.task_data import TaskData, make_batch
from bertwright.tasks.texts.options import ClassificationTask
from bertwright.transfer.task_words import TaskWords, train_task_words
from tests.raising import assert_names
from tests.tasks.sample import LETTERS, TOKENIZER, ids_of, make_learner

TASK = GenerationTask(
    max_length=20, stride=0, max_windows=1, options=GenerationOptions(max_target_tokens=6)
)
EXAMPLES = [
    GenerationExample("a b c", "d e"),
    GenerationExample("f", "g h i"),
    GenerationExample("a b c", "j"),
    GenerationExample("k l m n o", "p"),
]


def logits_after(learner: Learner, source: str, target: list[int]) -> torch.Tensor:
    """Of the next token, all read at once: `[V]`"""
    first = TOKENIZER.encode(source).ids
    ids = torch.tensor(first + target)
    segments = torch.tensor([0] * len(first) + [1] * len(target))
    inputs = Inputs(ids, Sequences([len(ids)], prefixes=[len(first)]), segments)
    with torch.inference_mode():
        found = learner.objectives["head"].logits(learner.encoder(inputs).last)[-1]
    return found.clone()


def test_an_instance_is_a_pair_and_its_labels_are_the_target() -> None:
    data = TaskData("head", TASK, TOKENIZER, EXAMPLES)
    for instance, example in zip(data.instances, EXAMPLES, strict=True):
        encoding = TOKENIZER.encode(example.source, example.target)
        assert list(instance.ids[0]) == encoding.ids
        assert list(instance.segments[0]) == encoding.type_ids
        assert instance.label == len(TOKENIZER.encode(example.source).ids)
    batch = make_batch("head", TASK, data.instances, [0, 1, 3])
    end = TOKENIZER.special_id("sep")
    assert batch.labels.tolist() == [*ids_of("p"), end, *ids_of("d e"), end, *ids_of("g h i"), end]
    before = [end, *ids_of("p"), end, *ids_of("d e"), end, *ids_of("g h i")]
    assert batch.inputs.ids[batch.before].tolist() == before
    assert batch.inputs.sequences.prefixes == [7, 5, 3]
    without = make_batch("head", TASK, data.instances, [0, 1, 3], with_labels=False)
    assert without.inputs.sequences.lengths == [7, 5, 3]
    assert without.inputs.sequences.prefixes is None


def test_what_is_too_long_is_cut_and_counted() -> None:
    long = GenerationExample(" ".join(LETTERS), " ".join(LETTERS[:9]))
    (instance,), lengths = GenerationKind().make(TASK, TOKENIZER, [long])
    room = 20 - 6 - 3
    assert instance.label == room + 2
    letters = ids_of(" ".join(LETTERS))
    cls, sep = TOKENIZER.special_id("cls"), TOKENIZER.special_id("sep")
    assert list(instance.ids[0]) == [cls, *letters[:room], sep, *letters[:6]]  # it has no end
    assert (lengths.cut, lengths.tokens_cut, lengths.tokens) == (1, 15 + 3, [38])
    (warning,) = lengths.warnings(GenerationKind().room(TASK))
    assert_names(warning, "20 tokens", "6 ")


@pytest.mark.parametrize(
    ("example", "message"),
    [
        (GenerationExample(" ", "a", line=3), "line 3.*source"),
        (GenerationExample("a", "", line=3), "line 3.*target"),
        (GenerationExample("a", "\u200b", line=3), "line 3.*no token"),
    ],
)
def test_bad_examples(example: GenerationExample, message: str) -> None:
    with pytest.raises(DataError, match=message):
        GenerationKind().make(TASK, TOKENIZER, [example])


def test_a_source_does_not_see_its_target_nor_a_token_a_later_one() -> None:
    learner = make_learner(TASK).eval()
    data = TaskData("head", TASK, TOKENIZER, EXAMPLES)
    inputs = make_batch("head", TASK, data.instances, [1]).inputs  # [CLS] f [SEP] g h i
    other = inputs.ids.clone()
    other[-1] = ids_of("z")[0]
    changed = Inputs(other, inputs.sequences, inputs.segments)
    with torch.inference_mode():
        first, second = (learner.encoder(each).last for each in (inputs, changed))
    torch.testing.assert_close(first[:-1], second[:-1])
    assert (first[-1] - second[-1]).abs().max() > 1e-3


@pytest.mark.parametrize("batch_tokens", [1, 4096])
def test_greedy_is_the_best_token_each_time(batch_tokens: int) -> None:
    learner = make_learner(TASK).eval()
    ends, never = ends_of(TOKENIZER)
    data = TaskData("head", TASK, TOKENIZER, EXAMPLES)
    found = predict(learner, data, batch_tokens=batch_tokens)
    for example, prediction in zip(EXAMPLES, found, strict=True):
        ids: list[int] = []
        while len(ids) < TASK.most_target_tokens:
            logits = logits_after(learner, example.source, ids)
            logits[list(never)] = -torch.inf
            token = int(logits.argmax())
            if token in ends:
                break
            ids.append(token)
        assert prediction.text == TOKENIZER.decode(ids).strip()
    assert found[0] == found[2]  # one source


def test_beams_find_the_best_of_all_targets() -> None:
    task = GenerationTask(max_length=20, stride=0, options=GenerationOptions(max_target_tokens=2))
    learner = make_learner(task).eval()
    ends, never = ends_of(TOKENIZER)
    tokens = [n for n in range(TOKENIZER.vocab_size) if n not in never | ends]
    scores: dict[tuple[int, ...], float] = {}

    def score(ids: tuple[int, ...], ended: bool) -> float:
        total = 0.0
        for n, token in enumerate([*ids, *ends] if ended else ids):
            total += float(logits_after(learner, "a b", list(ids[:n])).log_softmax(0)[token])
        return total / (len(ids) + ended)

    scores[()] = score((), True)
    best = sorted(tokens, key=lambda t: -score((t,), False))[:4]
    for token in best:
        scores[(token,)] = score((token,), True)
        for pair in product([token], best):
            scores[pair] = score(pair, False)
    data = TaskData("head", task, TOKENIZER, [GenerationExample("a b")])
    settings = GenerationConfig(beam=60, num=60)
    (found,) = predict(learner, data, generation=settings)
    assert found.score >= max(scores.values()) - 1e-4
    assert len({found.text, *found.others}) > 10


def test_samples_and_stop_strings() -> None:
    learner = make_learner(TASK).eval()
    data = TaskData("head", TASK, TOKENIZER, EXAMPLES)
    sampled = GenerationConfig(sample=True, temperature=3.0, num=3, seed=1)
    first, again = (predict(learner, data, generation=sampled) for _ in range(2))
    assert first == again
    one = first[0]
    assert len({one.text, *one.others}) == 3
    (cut, *_) = predict(
        learner,
        data,
        generation=GenerationConfig(sample=True, temperature=3.0, seed=1, stop=(" ",)),
    )
    assert cut.text == one.text.split()[0]


def test_decoding_is_of_generation_alone() -> None:
    task = ClassificationTask(labels=("a", "b"), max_length=20, stride=0)
    data = TaskData("head", task, TOKENIZER, [])
    with pytest.raises(ConfigError, match="classification"):
        predict(make_learner(task), data, generation=GenerationConfig(beam=2))


def test_metrics_are_sacrebleus_and_rouges_over_all_references() -> None:
    sacrebleu = pytest.importorskip("sacrebleu")
    rouge = pytest.importorskip("rouge_score.rouge_scorer")
    examples = [
        GenerationExample("one", "The old mill stands by the river."),
        GenerationExample("two", "A cheap pub near the centre of town."),
        GenerationExample("one", "By the river there is an old mill."),
    ]
    texts = [
        "The old mill is by the river.",
        "A cheap pub near the centre of the town.",
        "never read",
    ]
    predictions = [GenerationPrediction(text) for text in texts]
    found = evaluate(GenerationTask(), examples, predictions)
    references = [
        ["The old mill stands by the river.", "A cheap pub near the centre of town."],
        ["By the river there is an old mill.", None],
    ]
    assert found.metrics["bleu"] == pytest.approx(
        sacrebleu.corpus_bleu(texts[:2], references, lowercase=True).score / 100
    )
    scorer = rouge.RougeScorer(["rougeL"], use_stemmer=True)
    overlaps = [
        scorer.score(each.target or "", text)["rougeL"].fmeasure
        for each, text in zip(examples, [texts[0], texts[1], texts[0]], strict=True)
    ]
    own = [max(overlaps[0], overlaps[2]), overlaps[1]]
    assert found.metrics["rouge_l"] == pytest.approx(sum(own) / 2)
    exact = found.metrics["exact_match"]
    assert (found.main, exact, found.rules) == ("rouge_l", 0.0, "lower case")
    assert {row["text"] for row in found.worst} == {"one", "two"}
    # the predictions do not decide whether case counts
    for change in (str.lower, str.upper, str.swapcase, str):
        cased = [GenerationPrediction(change(each.target)) for each in examples if each.target]
        found = evaluate(GenerationTask(), examples, cased)
        assert (found.metrics["bleu"], found.metrics["exact_match"]) == (pytest.approx(1.0), 1.0)
        assert found.rules == "lower case"
        assert "case:lc" in found.signatures["bleu"]


@pytest.mark.parametrize(
    ("targets", "tokenizer", "words"),
    [
        (["今天下雨并且刮风", "把面粉和水还有盐混合"], "zh", "characters"),
        (["彼は東京に住んでいます", "雨が降っている"], "char", "characters"),
        (["ฉันอยู่ที่บ้าน", "วันนี้ฝนตก"], "char", "characters"),
        (["Сегодня идёт сильный дождь", "Команда выиграла последний матч"], "13a", "Unicode"),
        (["घर में कोई नहीं है", "आज बारिश हो रही है"], "13a", "Unicode"),
    ],
)
def test_texts_equal_to_their_references_are_perfect_in_any_script(
    targets: list[str], tokenizer: str, words: str
) -> None:
    pytest.importorskip("sacrebleu")
    pytest.importorskip("rouge_score")
    examples = [GenerationExample(str(n), target) for n, target in enumerate(targets)]
    task = GenerationTask()
    perfect = evaluate(task, examples, [GenerationPrediction(each) for each in targets])
    assert perfect.metrics == pytest.approx({"rouge_l": 1, "bleu": 1, "exact_match": 1})
    assert f"tok:{tokenizer}|" in perfect.signatures["bleu"]
    assert words in perfect.signatures["rouge_l"]
    part = evaluate(task, examples, [GenerationPrediction(each[2:]) for each in targets])
    assert 0.5 < part.metrics["rouge_l"] < 1


def test_the_tokenizer_of_bleu_can_be_named() -> None:
    sacrebleu = pytest.importorskip("sacrebleu")
    targets, texts = ["今天下雨并且刮风", "好"], ["今天下雨又刮风", "好"]
    examples = [GenerationExample(str(n), target) for n, target in enumerate(targets)]
    predictions = [GenerationPrediction(each) for each in texts]
    found = {}
    for name in ("auto", "zh", "13a", "char"):
        task = GenerationTask(options=GenerationOptions(bleu_tokenize=name))
        found[name] = evaluate(task, examples, predictions).metrics["bleu"]
        if name != "auto":
            score = sacrebleu.corpus_bleu(texts, [targets], tokenize=name).score
            assert found[name] == pytest.approx(score / 100)
    assert found["auto"] == found["zh"] > found["13a"]


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics.bleu", None)
    with pytest.raises(MissingExtra, match=r"bertwright\[generation\]"):
        evaluate(
            GenerationTask(),
            [GenerationExample("a", "b")],
            [GenerationPrediction("b")],
        )


def test_all_token_embeddings_are_trained() -> None:
    learner = make_learner(TASK)
    train_task_words(learner, [5, 6, 7])
    assert not isinstance(learner.encoder.token_embedding(), TaskWords)


def test_weights_that_diverged_are_known() -> None:
    learner = make_learner(TASK)
    data = TaskData("head", TASK, TOKENIZER, EXAMPLES)
    assert predict(learner, data)
    learner.objectives["head"].bias.data[3] = torch.nan
    with pytest.raises(NotFinite, match="logits"):
        predict(learner, data)


def test_the_head_has_the_activation_and_the_eps_of_its_bert() -> None:
    config = BertConfig(
        vocab_size=20,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        hidden_act="gelu_tanh",
        layer_norm_eps=1e-3,
    )
    head = Generator(bert_spec(config), TASK)
    assert head.transform is not None
    x = torch.randn(3, 8)
    activated = torch.nn.functional.gelu(head.transform(x), approximate="tanh")
    expected = torch.nn.functional.layer_norm(activated, (8,), eps=1e-3)
    torch.testing.assert_close(head.transformed(x), expected)
