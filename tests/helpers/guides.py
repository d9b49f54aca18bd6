"""The texts for readers, and the blocks of code in them."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
GUIDE = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("scripts/guide/*.md"))
FOLDERS = ("", "scripts/", "scripts/lab/", "model_cards/")
TEXTS = (
    *(f"{folder}README.md" for folder in FOLDERS),
    *GUIDE,
    *(f"model_cards/{page}.md" for page in ("EXPLANATION", "RANKING", "SPEED")),
    "CONTRIBUTING.md",
    "SECURITY.md",
    "CHANGELOG.md",
)


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def code_blocks(name: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", read(name), flags=re.DOTALL | re.MULTILINE)


def commands(name: str) -> list[str]:
    """Return the lines of the blocks of a text for a shell, without their comments."""
    lines = "".join(code_blocks(name, "sh")).replace("\\\n", " ").splitlines()
    uncommented = (re.sub(r"(^|\s+)#.*", "", line) for line in lines)
    return [line for line in uncommented if line]
