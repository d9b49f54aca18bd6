"""The command `sase_hf quickstart`, for a clone of the repository."""

from sase_hf.commands.quickstart import main

if __name__ == "__main__":
    main()
