"""The command `sase_hf rank`, for a clone of the repository."""

from sase_hf.commands.rank import main

if __name__ == "__main__":
    main()
