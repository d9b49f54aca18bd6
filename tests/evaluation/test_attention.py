"""What the hops read over many texts, against loops and against the pipeline."""

import itertools
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoints import PAIRS, TEXTS, save_checkpoint, script_main, write_texts
from datasets import Dataset
from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline

from sase_hf.evaluation.attention import hop_cosine, measure_attention, read_word_list
from sase_hf.evaluation.dataset import EvaluationDataset


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_checkpoint(tmp_path_factory.mktemp("checkpoint") / "tiny")


def dataset_of(
    checkpoint: str, texts: list[str], pairs: list[str] | None = None
) -> EvaluationDataset:
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    model = AutoModelForSequenceClassification.from_pretrained(checkpoint).eval()
    encoded = tokenizer(texts, pairs, return_token_type_ids=pairs is not None)
    return EvaluationDataset(model, tokenizer, Dataset.from_dict(dict(encoded)), {})


def test_hop_cosine_is_the_mean_cosine_with_the_other_hops() -> None:
    attention = torch.rand(2, 4, 5).softmax(-1)
    result = hop_cosine(attention)
    for text, hop in itertools.product(range(2), range(4)):
        a = attention[text]
        others = [torch.cosine_similarity(a[hop], a[j], dim=0) for j in range(4) if j != hop]
        torch.testing.assert_close(result[text, hop], torch.stack(others).mean())


def test_hop_cosine_of_equal_hops_is_1_for_texts_of_every_length() -> None:
    """The mean of A A^T off its diagonal is 1/T for these, which looks like different hops."""
    for length in (2, 100):
        same = torch.full((1, 3, length), 1 / length)
        torch.testing.assert_close(hop_cosine(same), torch.ones(1, 3))
    assert hop_cosine(torch.eye(3).unsqueeze(0)).tolist() == [[0.0] * 3], "no shared token"
    assert hop_cosine(torch.rand(2, 1, 5)).tolist() == [[0.0], [0.0]], "one hop has no other"


@pytest.mark.parametrize("batch_size", [1, 4])
def test_measure_attention_agrees_with_the_pipeline(checkpoint: str, batch_size: int) -> None:
    """Texts of one token are left out and counted."""
    measured = measure_attention(dataset_of(checkpoint, TEXTS), batch_size)
    results = pipeline("self-attention", checkpoint)(TEXTS)
    counted = [result for result in results if len(result["tokens"]) > 1]
    assert (measured["num_texts"], measured["num_left_out"]) == (len(counted), 1)
    mean = sum(result["cosine"] for result in counted) / len(counted)
    assert measured["cosine"]["mean"] == pytest.approx(mean, rel=1e-5)
    for hop, distribution in enumerate(measured["entropy"]["hops"]):
        nats = [
            -sum(weight * math.log(weight) for weight in result["attention"][hop] if weight)
            for result in counted
        ]
        entropies = sorted(
            nat / math.log(len(result["tokens"])) for nat, result in zip(nats, counted, strict=True)
        )
        effective = measured["effective_words"]["hops"][hop]["mean"]
        assert effective == pytest.approx(sum(map(math.exp, nats)) / len(nats), rel=1e-5)
        assert distribution["mean"] == pytest.approx(sum(entropies) / len(entropies), rel=1e-5)
        assert distribution["p50"] == pytest.approx(entropies[len(entropies) // 2], rel=1e-5)
        assert 0 <= distribution["p5"] <= distribution["p25"] <= distribution["p95"] <= 1 + 1e-6


def test_measure_attention_counts_each_sentence_of_a_pair(tmp_path: Path) -> None:
    folder = save_checkpoint(tmp_path / "pairs", is_pair=True)
    first, second = (list(side) for side in zip(*PAIRS, strict=True))
    measured = measure_attention(dataset_of(folder, first, second))
    assert (measured["num_texts"], measured["num_left_out"]) == (4, 0)
    inputs = [{"text": one, "text_pair": two} for one, two in PAIRS]
    cosines = [
        value for each in pipeline("self-attention", folder)(inputs) for value in each["cosine"]
    ]
    assert measured["cosine"]["mean"] == pytest.approx(sum(cosines) / 4, rel=1e-5)


@pytest.mark.parametrize("is_pair", [False, True])
def test_measure_attention_gives_the_lift_of_listed_words(tmp_path: Path, is_pair: bool) -> None:
    """The mean attention on their tokens over the mean share of their tokens; case is ignored."""
    folder = save_checkpoint(tmp_path / "model", is_pair=is_pair)
    texts: list[Any] = [{"text": a, "text_pair": b} for a, b in PAIRS] if is_pair else TEXTS
    results = pipeline("self-attention", folder)(texts)
    fields = [
        (tokens, attention)
        for result in results
        for tokens, attention in (
            zip(result["tokens"], result["attention"], strict=True)
            if is_pair
            else [(result["tokens"], result["attention"])]
        )
        if len(tokens) > 1
    ]
    word = fields[0][0][0]
    inside = [[token.lower() == word.lower() for token in tokens] for tokens, _ in fields]
    share = sum(sum(flags) / len(flags) for flags in inside)
    columns = tuple(zip(*PAIRS, strict=True)) if is_pair else (TEXTS,)
    measured = measure_attention(dataset_of(folder, *map(list, columns)), words=[word.upper()])
    for hop, found in enumerate(measured["lift"]["hops"]):
        got = sum(
            weight
            for flags, (_, attention) in zip(inside, fields, strict=True)
            for weight, listed in zip(attention[hop], flags, strict=True)
            if listed
        )
        assert found["mean"] == pytest.approx(got / share, rel=1e-5)


def test_read_word_list_takes_the_first_column_and_refuses_an_empty_file(tmp_path: Path) -> None:
    file = tmp_path / "words.tsv"
    file.write_text("good\t0.9\n\nbad\t-0.8\n", encoding="utf-8")
    assert read_word_list(file) == {"good", "bad"}
    file.write_text("\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"words\.tsv has no words; give a text file"):
        read_word_list(file)


def test_measure_attention_refuses_single_tokens_unlisted_words_and_nan(
    checkpoint: str,
) -> None:
    with pytest.raises(ValueError, match=r"no text has two tokens, .* give longer texts"):
        measure_attention(dataset_of(checkpoint, ["?", "Good", ""]))
    dataset = dataset_of(checkpoint, TEXTS)
    with pytest.raises(ValueError, match=r"no text has one of the 1 listed words"):
        measure_attention(dataset, words=["xylophone"])
    with torch.no_grad():
        dataset.model.get_input_embeddings().weight.fill_(math.nan)
    with pytest.raises(ValueError, match=rf"^{checkpoint} gives attention that is not finite"):
        measure_attention(dataset)


def test_script_checks_everything_before_it_measures(
    checkpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EvaluationDataset, "batches", lambda *_: pytest.fail("it measured"))
    file = f"--file={write_texts(tmp_path)}"
    for more, message in (
        ([str(tmp_path / "absent")], "there is no folder .*absent; name the folder of a check"),
        ([f"--output={tmp_path}"], "is a folder; name a file in it"),
        ([f"{checkpoint}/../other", "--names", "one", "one"], "2 checkpoints are called one, one"),
    ):
        with pytest.raises(SystemExit, match=rf"^attention_statistics\.py: .*{message}"):
            script_main("attention_statistics")([checkpoint, *more, file])


@pytest.mark.slow
def test_script_compares_checkpoints_in_a_table_a_file_and_a_plot(
    checkpoint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = save_checkpoint(tmp_path / "tiny", num_hops=2)
    output, plot = tmp_path / "numbers.json", tmp_path / "plot.svg"
    (tmp_path / "words.txt").write_text("good\n", encoding="utf-8")
    words = [f"--file={write_texts(tmp_path)}", f"--output={output}", f"--plot={plot}"]
    words.append(f"--word_list={tmp_path / 'words.txt'}")
    script_main("attention_statistics")([checkpoint, other, "--names", "on", "off", *words])
    text = output.read_text(encoding="utf-8")
    assert str(tmp_path) not in text
    records: dict[str, Any] = json.loads(text)
    assert [len(records[name]["entropy"]["hops"]) for name in ("on", "off")] == [3, 2]
    assert records["on"]["metrics"]["lift"] == records["on"]["lift"]["mean"]
    assert plot.read_text(encoding="utf-8").startswith("<?xml")
    table = capsys.readouterr().out.splitlines()
    assert [line for line in table if "texts" in line] == ["on, 5 texts", "off, 5 texts"]
    first = records["on"]["entropy"]["hops"][0]
    assert f"{first['mean']:.3f} [{first['p25']:.3f}, {first['p75']:.3f}]" in table[2]
