"""The attention over many texts, against loops and against the pipeline."""

import itertools
import math
from pathlib import Path

import pytest
import torch
from checkpoints import PAIRS, TEXTS, save_checkpoint
from datasets import Dataset
from explanations.attention import hop_cosine, measure_attention, read_word_list
from explanations.dataset import EvaluationDataset
from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline


def dataset_of(checkpoint: str, *columns: list[str]) -> EvaluationDataset:
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    model = AutoModelForSequenceClassification.from_pretrained(checkpoint).eval()
    encoded = tokenizer(*columns, return_token_type_ids=len(columns) == 2)
    return EvaluationDataset(model, tokenizer, Dataset.from_dict(dict(encoded)), {})


def test_hop_cosine_is_the_mean_cosine_with_the_other_hops() -> None:
    attention = torch.rand(2, 4, 5).softmax(-1)
    result = hop_cosine(attention)
    for text, hop in itertools.product(range(2), range(4)):
        a = attention[text]
        others = [torch.cosine_similarity(a[hop], a[j], dim=0) for j in range(4) if j != hop]
        torch.testing.assert_close(result[text, hop], torch.stack(others).mean())
    same = torch.full((1, 3, 100), 1 / 100)  # where the mean of A A^T off its diagonal is 1/T
    torch.testing.assert_close(hop_cosine(same), torch.ones(1, 3))
    assert hop_cosine(torch.eye(3).unsqueeze(0)).tolist() == [[0.0] * 3], "no shared token"
    assert hop_cosine(torch.rand(2, 1, 5)).tolist() == [[0.0], [0.0]], "one hop has no other"


@pytest.mark.parametrize(("is_pair", "batch_size"), [(False, 1), (False, 4), (True, 2)])
def test_measure_attention_agrees_with_the_pipeline(
    tmp_path: Path, is_pair: bool, batch_size: int
) -> None:
    """Texts of one token are left out and counted; each sentence of a pair is a text."""
    folder = save_checkpoint(tmp_path / "model", is_pair=is_pair)
    read = pipeline("self-attention", folder)
    texts: list[tuple[list[str], list[list[float]], float]] = []
    for row in PAIRS if is_pair else TEXTS:
        result = read({"text": row[0], "text_pair": row[1]} if is_pair else row)
        parts = [result[name] for name in ("tokens", "attention", "cosine")]
        texts += zip(*parts, strict=True) if is_pair else [tuple(parts)]
    counted = [text for text in texts if len(text[0]) > 1]
    word = counted[0][0][0]  # listed in the other case
    columns = map(list, zip(*PAIRS, strict=True)) if is_pair else [TEXTS]
    measured = measure_attention(dataset_of(folder, *columns), batch_size, [word.upper()])
    left_out = len(texts) - len(counted)
    assert (measured["num_texts"], measured["num_left_out"]) == (len(counted), left_out)
    cosines = [cosine for *_, cosine in counted]
    assert measured["cosine"]["mean"] == pytest.approx(sum(cosines) / len(cosines), rel=1e-5)
    inside = [[token.lower() == word.lower() for token in tokens] for tokens, *_ in counted]
    share = sum(sum(flags) / len(flags) for flags in inside)
    for hop, distribution in enumerate(measured["entropy"]["hops"]):
        fields = [attention[hop] for _, attention, _ in counted]
        nats = [-sum(weight * math.log(weight) for weight in row if weight) for row in fields]
        entropies = [nat / math.log(len(row)) for nat, row in zip(nats, fields, strict=True)]
        assert distribution["mean"] == pytest.approx(sum(entropies) / len(entropies), rel=1e-5)
        median = torch.tensor(entropies).quantile(0.5).item()
        assert distribution["p50"] == pytest.approx(median, rel=1e-5)
        assert 0 <= distribution["p5"] <= distribution["p25"] <= distribution["p95"] <= 1 + 1e-6
        effective = measured["effective_words"]["hops"][hop]["mean"]
        assert effective == pytest.approx(sum(map(math.exp, nats)) / len(nats), rel=1e-5)
        pairs = itertools.chain(*map(zip, fields, inside))
        listed = sum(weight for weight, is_listed in pairs if is_listed)
        lift = measured["lift"]["hops"][hop]["mean"]
        assert lift == pytest.approx(listed / share, rel=1e-5)


def test_read_word_list_rates_words_by_the_second_column(tmp_path: Path) -> None:
    file = tmp_path / "words.tsv"
    file.write_text("word\trating\ngood\t0.9\t3\n\nbad\t-0.8\nplain\nbare\t\n", encoding="utf-8")
    assert read_word_list(file) == {"word": 0, "good": 0.9, "bad": 0.8, "plain": 1, "bare": 1}


@pytest.mark.parametrize("rating", ["high", "nan", "inf"])
def test_read_word_list_refuses_a_rating_that_is_no_number(tmp_path: Path, rating: str) -> None:
    file = tmp_path / "words.tsv"
    file.write_text(f"good\t1\nbad\t{rating}\n", encoding="utf-8")
    with pytest.raises(ValueError, match=f"line 2: '{rating}' is no finite number"):
        read_word_list(file)


def test_read_word_list_refuses_a_file_without_words(tmp_path: Path) -> None:
    file = tmp_path / "words.tsv"
    file.write_text("\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"words\.tsv has no words; give a text file"):
        read_word_list(file)


def test_measure_attention_refuses_texts_of_single_tokens(tmp_path: Path) -> None:
    checkpoint = save_checkpoint(tmp_path / "tiny")
    with pytest.raises(ValueError, match=r"no text has two tokens, .* give longer texts"):
        measure_attention(dataset_of(checkpoint, ["?", "Good", ""]))


def test_measure_attention_refuses_texts_without_listed_words(tmp_path: Path) -> None:
    checkpoint = save_checkpoint(tmp_path / "tiny")
    with pytest.raises(ValueError, match=r"no text has one of the 1 listed words"):
        measure_attention(dataset_of(checkpoint, TEXTS), words=["xylophone"])
