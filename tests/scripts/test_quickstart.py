"""The first command of a new user: it works twice, and deletes no other files."""

from pathlib import Path

import pytest
from script_files import load_command

# The way it takes is that of `make quickstart`; the model is too small to learn anything on it.
TINY = (  # noqa: SIM905
    "--max_train_samples=60 --max_eval_samples=60 --max_predict_samples=60 --use_cpu "
    "--disable_tqdm=True --max_steps=2 --embedding_size=6 --lstm_hidden_size=4 --attention_size=5 "
    "--num_hops=2 --classifier_hidden_size=7"
).split()


@pytest.mark.slow
def test_quickstart_says_what_to_do_next_goes_on_and_keeps_other_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    main = load_command("quickstart").main
    main(TINY)
    said = capsys.readouterr().out
    folder = tmp_path / "runs/quickstart"
    assert f"open {(folder / 'model/report.html').as_uri()}" in said
    assert "sase_hf export runs/quickstart/model runs/quickstart/model.html" in said
    first = (folder / "model/model.safetensors").read_bytes()
    (folder / "model/thesis.txt").touch()
    words = ["--output_dir", str(folder), *TINY]
    main(words)
    assert (folder / "model/model.safetensors").read_bytes() == first
    assert (folder / "model/thesis.txt").exists()
    with pytest.raises(SystemExit, match=r"'neutral'.*those of the checkpoint"):
        main([*words, "--task", "pairs"])
