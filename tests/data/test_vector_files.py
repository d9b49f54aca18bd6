"""Which word-vector files can be read, and how one that cannot is refused."""

import gzip
import io
import random
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from transformers.utils import logging

from sase_hf.data import vector_files
from sase_hf.data.vector_files import open_rows

VECTORS = {"the": [0.5, -1.0, 2.25], "soup": [1e-3, 0.0, -7.0], "naïve": [3.0, 1.5, -0.125]}
GLOVE = "".join(f"{word} {' '.join(map(str, row))}\n" for word, row in VECTORS.items()).encode()


def binary(end: bytes = b"\n", count: int = len(VECTORS)) -> bytes:
    """Return the vectors in word2vec's binary form."""
    rows = (word.encode() + b" " + struct.pack("<3f", *row) for word, row in VECTORS.items())
    return b"%d 3\n" % count + b"".join(row + end for row in rows)


def long_binary() -> tuple[np.ndarray, bytes]:
    """Return random vectors, and some megabytes of binary data that hold them."""
    values = np.random.default_rng(0).normal(size=(700, 900)).astype("<f4")
    rows = (f"w{i} ".encode() + row.tobytes() for i, row in enumerate(values))
    return values, b"700 900\n" + b"".join(rows)


def zipped(data: bytes, name: str = "vectors.txt", method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return a zip archive of one file."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", method) as file:
        file.writestr(name, data)
    return archive.getvalue()


FORMS = {
    "GloVe": GLOVE,
    "without a last line feed": GLOVE.rstrip(b"\n"),
    "with Windows line ends": GLOVE.replace(b"\n", b"\r\n"),
    "word2vec text": b"3 3\n" + GLOVE,
    "fastText": b"3 3\n" + GLOVE.replace(b"\n", b" \n"),
    "word2vec binary": binary(),
    "word2vec binary without line feeds": binary(end=b""),
}
PACKINGS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gzip": gzip.compress,
    "zip": zipped,
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a name that tells nothing about the content."""
    return tmp_path / "vectors"


def read(path: Path, data: bytes, member: str | None = None) -> dict[str, list[float]]:
    """Write a file, and return the words and vectors read from it."""
    path.write_bytes(data)
    with open_rows(path, member) as rows:
        return {word: rows.parse(numbers).tolist() for _, word, numbers in rows}


# What can be read


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize("form", FORMS)
def test_a_file_is_known_by_its_content(path: Path, form: str, packing: str) -> None:
    """People rename files, and three tools write three forms."""
    expected = {word: np.float32(row).tolist() for word, row in VECTORS.items()}
    assert read(path, PACKINGS[packing](FORMS[form])) == expected


def test_a_word_may_have_spaces_in_it(path: Path) -> None:
    """GloVe's 840B file has such words; only the last d fields of a line are numbers."""
    words = read(path, GLOVE + b". . . 1 2 3\nat name@example.org 4 5 6\n\xc2\xa0 7 8 9\n")
    assert list(words)[3:] == [". . .", "at name@example.org", "\N{NO-BREAK SPACE}"]
    assert words[". . ."] == [1, 2, 3]


def test_a_long_binary_file_is_read_across_its_chunks(path: Path) -> None:
    """A row may begin in one chunk of bytes and end in the next."""
    values, data = long_binary()
    assert len(data) > 2 * vector_files.MAX_ROW_BYTES, "the premise: there are several chunks"
    assert list(read(path, data).values()) == values.tolist()


def test_a_member_of_a_zip_archive_is_chosen_by_name(path: Path) -> None:
    """GloVe's archives hold one file for each width."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("folder/", "")
        file.writestr("a.txt", "soup 1 2\n")
        file.writestr("folder/b.txt", "soup 1 2 3\n")
    assert read(path, archive.getvalue(), "folder/b.txt") == {"soup": [1, 2, 3]}
    with pytest.raises(ValueError, match=r"holds 'a.txt', 'folder/b.txt'; .* member=, not None"):
        read(path, archive.getvalue())
    with pytest.raises(ValueError, match=r"'folder/b.txt'; name the one .* not 'c.txt'"):
        read(path, archive.getvalue(), "c.txt")


def test_what_macos_adds_to_an_archive_is_passed_over(path: Path) -> None:
    """It would make every archive packed there ambiguous."""
    archive = io.BytesIO(zipped(GLOVE))
    with zipfile.ZipFile(archive, "a") as file:
        file.writestr("__MACOSX/._vectors.txt", "x")
    assert list(read(path, archive.getvalue())) == list(VECTORS)


def test_progress_is_shown_in_bytes_of_the_file(path: Path) -> None:
    """Rows cannot be counted before the end, bytes can."""
    shown = []

    class Bar:
        def __enter__(self) -> "Bar":
            return self

        def __exit__(self, *_: object) -> None: ...

        def update(self, amount: int) -> None:
            shown.append(amount)

    made = []
    previous = logging.set_tqdm_hook(lambda _, args, kwargs: made.append(kwargs) or Bar())
    try:
        read(path, gzip.compress(long_binary()[1], compresslevel=1))
    finally:
        logging.set_tqdm_hook(previous)
    assert made[0]["total"] == path.stat().st_size
    assert len(shown) > 1
    assert 0.5 < sum(shown) / path.stat().st_size <= 1


# Rows that are refused


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (GLOVE + b"bad 1 2\n", r"line 4: 2 numbers follow the word; by line 1 there must be 3"),
        (GLOVE + b"bad 1 2 3 4\n", r"line 4: 4 numbers follow"),
        (b"4 3\n" + GLOVE + b"bad 1 2 3 4\n", r"line 5: 4 numbers follow"),
        (GLOVE + b"\n" + GLOVE, r"line 4: 0 numbers follow"),
        (GLOVE + b"caf\xe9 1 2 3\n", r"line 4: the word b'caf\\xe9' is not UTF-8"),
        (GLOVE + b"bad 1 x 3\n", r"could not convert string to float: b'x'"),
        (GLOVE + b"bad 1  3\n", r"could not convert string to float: b''"),
        (b"4 3\n" + GLOVE, r"its first line promises 4 words, 3 follow; is the file whole\?"),
        (b"2 3\n" + GLOVE, r"its first line promises 2 words, 3 follow"),
        (b"", r"vectors is empty"),
        (b"\n" + GLOVE, r"line 1: 0 numbers a word"),
        (b"word\n", r"line 1: 0 numbers a word"),
        (b"3 10001\n" + GLOVE, r"line 1: 10001 numbers a word; it must be a word and 1 to 10000"),
        (b"\x80\x04\x95 1 2 3\n", r"line 1: the word b'\\x80\\x04\\x95' is not UTF-8"),
        (b"a" * 2_000_000 + GLOVE, r"line 1: longer than 1048575 bytes"),
        (GLOVE + b"a " * 1_000_000, r"line 4: longer than 1048575 bytes"),
    ],
)
@pytest.mark.parametrize("packing", PACKINGS)
def test_a_malformed_line_is_named(path: Path, packing: str, data: bytes, message: str) -> None:
    """Its number leads to the line; a vector read one field off would do harm in silence."""
    with pytest.raises(ValueError, match=message):
        read(path, PACKINGS[packing](data))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (binary()[:-9], r"row 3: the file ends here; its first line promises 3 rows"),
        (binary(count=4), r"row 4: the file ends here; its first line promises 4 rows"),
        (binary() + b"x", r"bytes follow the 3 rows of its first line"),
        (binary(count=2), r"bytes follow the 2 rows of its first line"),
        (binary().replace(b"soup", b"so\xffp"), r"row 2: the word b'so\\xffp' is not UTF-8"),
        (binary(count=4) + b"\0" * 3_000_000, r"row 4: no word ends within 1048576 bytes"),
    ],
)
def test_a_malformed_binary_row_is_named(path: Path, data: bytes, message: str) -> None:
    """Binary data has no lines; its rows are counted."""
    with pytest.raises(ValueError, match=message):
        read(path, data)


# Packing that is refused


@pytest.mark.parametrize("pack", [gzip.compress, zipped], ids=["gzip", "zip"])
def test_a_packed_file_that_was_cut_or_changed_is_refused(
    path: Path, pack: Callable[[bytes], bytes]
) -> None:
    """A download that broke off must not become a smaller vocabulary."""
    packed = pack(b"".join(b"w%d 1 2 3\n" % i for i in range(1000)))
    for cut in range(5, len(packed), 97):
        with pytest.raises(ValueError, match=r"vectors cannot be unpacked.*is it whole\?"):
            read(path, packed[:cut])
    middle = len(packed) // 3
    with pytest.raises(ValueError, match=r"cannot be unpacked beyond line \d+: .*is it whole\?"):
        read(path, packed[:middle] + bytes([packed[middle] ^ 4]) + packed[middle + 1 :])


def test_an_encrypted_archive_is_refused(path: Path) -> None:
    """There is nowhere to give a password."""
    data = bytearray(zipped(GLOVE))
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    with pytest.raises(ValueError, match=r"cannot be unpacked: .*encrypted.*; unpack it yourself"):
        read(path, bytes(data))


@pytest.mark.parametrize("name", ["../a.txt", "a/../../b.txt", "/a.txt", "..\\a.txt", "C:/a.txt"])
def test_a_member_that_leads_out_of_its_archive_is_refused(path: Path, name: str) -> None:
    """Nothing is written, but whoever made such an archive meant harm."""
    with pytest.raises(ValueError, match=r"vectors holds '.*[ab]\.txt', which leads out of it"):
        read(path, zipped(GLOVE, name))


def test_an_empty_archive_is_refused(path: Path) -> None:
    """There is nothing to choose from."""
    archive = io.BytesIO()
    zipfile.ZipFile(archive, "w").close()
    with pytest.raises(ValueError, match="vectors holds no file; name the one to read"):
        read(path, archive.getvalue())


def test_a_member_of_what_is_no_archive_is_refused(path: Path) -> None:
    """The name would otherwise be ignored, and another file read than was meant."""
    with pytest.raises(ValueError, match=r"is no zip archive, so it has no member 'a\.txt'"):
        read(path, gzip.compress(GLOVE), "a.txt")


@pytest.mark.parametrize("pack", [gzip.compress, zipped], ids=["gzip", "zip"])
def test_a_file_that_unpacks_to_absurd_size_is_refused(
    path: Path, pack: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lines may all be well formed; it would keep a machine busy for hours."""
    monkeypatch.setattr(vector_files, "FREE_BYTES", 1 << 20)
    bomb = pack(b"word 0 0 0\n" * 200_000)
    assert len(bomb) * 150 < 2_200_000, "the premise: it shrinks far more than vectors do"
    with pytest.raises(ValueError, match="unpacks to more than 100 times its size"):
        read(path, bomb)


def test_damage_anywhere_is_an_error_of_the_file_or_no_error(path: Path) -> None:
    """Whatever the bytes are, a caller meets ValueError and nothing else."""
    rng = random.Random(0)
    methods = (zipfile.ZIP_STORED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
    whole = [pack(form) for form in (GLOVE, binary()) for pack in PACKINGS.values()]
    whole += [zipped(GLOVE, method=method) for method in methods]
    refused = 0
    for _ in range(500):
        data = bytearray(rng.choice(whole))
        for _ in range(rng.choice((1, 1, 4))):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        del data[rng.choice((len(data), rng.randrange(len(data)))) :]
        try:
            read(path, bytes(data))
        except ValueError:
            refused += 1
    assert 100 < refused < 500, "the premise: some damage shows, some does not"
