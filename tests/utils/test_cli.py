"""The frame of every script."""

import pytest

from sase_hf.utils.cli import errors_in_one_line


@pytest.mark.parametrize(
    "error",
    [
        Exception("No space left on device (os error 28)"),  # of tokenizers
        RuntimeError("basic_ios::clear: iostream error"),  # of torch
        RuntimeError("[enforce fail at inline_container.cc:626] . unexpected pos 64 vs 0"),
    ],
    ids=str,
)
def test_errors_in_one_line_know_a_full_disk_by_its_words(error: Exception) -> None:
    message = r"^a\.py: a file could not be written, is the disk full"
    with pytest.raises(SystemExit, match=message), errors_in_one_line("scripts/a.py"):
        raise error
    with pytest.raises(RuntimeError, match="of the program"), errors_in_one_line("a.py"):
        raise RuntimeError("of the program")
