"""The command `sase_hf push`, for a clone of the repository."""

from sase_hf.__main__ import run_command

if __name__ == "__main__":
    run_command("push")
