"""The command `sase_hf export`, for a clone of the repository."""

from sase_hf.commands.export import main

if __name__ == "__main__":
    main()
