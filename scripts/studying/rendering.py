"""The page of a study and the figure beside it, made from its records alone."""

import re
from pathlib import Path

from sase_hf.visualization import accuracy_figure, save_figure

from .records import Records, curve, read_records
from .tables import HOPS, HOPS_TASKS, TABLES, hops_recipes

TEMPLATE = Path(__file__).with_name("experiments.md")
FIGURE_NAME = "hops.svg"


def render(records_folder: Path, output: Path) -> tuple[Path, Path]:
    """Write the page and the figure; the same records give the same bytes.

    Args:
        records_folder: The folder of the study's records.
        output: The page; the figure goes into the same folder.

    Returns:
        Both files.

    Raises:
        FileNotFoundError: If there is no such folder of records.
        ValueError: If a record is none of a study.
        ImportError: If matplotlib is missing.
    """
    if not records_folder.is_dir():
        raise FileNotFoundError(f"there is no folder {records_folder}; name one with --records")
    records = read_records(records_folder)
    figure = output.with_name(FIGURE_NAME)
    save_figure(accuracy_figure(hops_curves(records)), figure)
    output.write_text(page(TEMPLATE.read_text(encoding="utf-8"), records), encoding="utf-8")
    return output, figure


def page(template: str, records: Records) -> str:
    """Return a template with tables in place of the lines that name them.

    Args:
        template: A text with lines such as `{{ table1 }}`.
        records: Those of the study.

    Raises:
        ValueError: If there is no table of a name.
    """

    def table(found: re.Match[str]) -> str:
        if found[1] not in TABLES:
            raise ValueError(f"there is no table {found[1]!r}; there are {', '.join(TABLES)}")
        return TABLES[found[1]](records)

    return re.sub(r"^\{\{ (\w+) \}\}$", table, template, flags=re.MULTILINE)


def hops_curves(records: Records) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """Return what Figure 5 of the paper shows: for each task and number of hops a curve.

    Args:
        records: Those of the study.
    """
    names = {task: hops_recipes(records, task) for task in HOPS_TASKS}
    return {
        task: {f"r = {hops}": curve(records, found[hops]) if hops in found else [] for hops in HOPS}
        for task, found in names.items()
    }


__all__ = ["hops_curves", "page", "render"]
