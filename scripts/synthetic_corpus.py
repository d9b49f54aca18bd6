"""The command `sase_hf synthetic_corpus`, for a clone of the repository."""

from sase_hf.commands.synthetic_corpus import main

if __name__ == "__main__":
    main()
