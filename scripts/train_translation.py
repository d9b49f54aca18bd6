"""The command `sase_hf train_translation`, for a clone of the repository."""

from sase_hf.commands.train_translation import main

if __name__ == "__main__":
    main()
