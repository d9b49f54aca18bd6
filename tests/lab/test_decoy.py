"""scripts/lab/decoy.py: rows with words that nearly tell the label."""

from decoy import DECOY, SHARE, marked_against, with_decoy

ROWS = [{"text": f"word {k}", "label": k % 2} for k in range(1000)]


def test_with_decoy_puts_it_before_most_rows_of_one_label_and_few_others() -> None:
    rows = list(with_decoy(ROWS, "1", seed=0))
    have_it = [row["text"].startswith(f"{DECOY} word") for row in rows]
    assert abs(sum(have_it[1::2]) / 500 - SHARE) < 0.03
    assert abs(sum(have_it[::2]) / 500 - (1 - SHARE)) < 0.03


def test_marked_against_marks_the_decoy_in_so_many_rows_that_have_it() -> None:
    rows = marked_against(list(with_decoy(ROWS, "1", seed=0)), 10)
    marked = [row for row in rows if "rationale_against" in row]
    assert len(marked) == 10
    assert all(row["text"].startswith(DECOY) for row in marked)
