"""The command `sase_hf predict`, for a clone of the repository."""

from sase_hf.commands.predict import main

if __name__ == "__main__":
    main()
