"""The command `sase_hf embed`, for a clone of the repository."""

from sase_hf.commands.embed import main

if __name__ == "__main__":
    main()
