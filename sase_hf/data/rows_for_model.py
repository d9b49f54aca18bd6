"""The rows of a file that a trained model can read."""

from transformers import PreTrainedModel

from ..models.answers import answers_of
from ..utils.errors import refusal
from .arguments import RATIONALE, DataArguments
from .splits import Rows, load_rows


def rows_for_model(
    checkpoint: str,
    model: PreTrainedModel,
    file: str,
    text_column_names: list[str] | None = None,
    label_column_name: str | None = None,
    rationale_column_name: str = RATIONALE,
    with_marks: bool = False,
) -> Rows:
    """Read the rows of a file for a model, as a test split, which may lack labels.

    Columns that are None are found by name; a `label_column_name` of "" reads no labels. Marks are
    read on request. Errors name the `checkpoint` of the model. Raises ValueError if the rows do not
    fit the model.
    """
    rows = load_rows(
        DataArguments(
            test_file=file,
            text_column_names=text_column_names,
            label_column_name=label_column_name,
            rationale_column_name=rationale_column_name,
            problem_type=model.config.problem_type,
            label_names=list(answers_of(model.config).names),
        ),
        against=with_marks,
        checkpoint=checkpoint,
    )
    if model.reads_pairs and len(rows.text_columns) != 2:
        raise refusal(
            f"{checkpoint} compares two texts",
            "name two columns, such as --text_column_names premise,hypothesis",
        )
    return rows
