"""The command `sase_hf train`, for a clone of the repository."""

from sase_hf.commands.train import main

if __name__ == "__main__":
    main()
