"""The command `sase_hf train_retrieval`, for a clone of the repository."""

from sase_hf.commands.train_retrieval import main

if __name__ == "__main__":
    main()
