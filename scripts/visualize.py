"""The command `sase_hf visualize`, for a clone of the repository."""

from sase_hf.commands.visualize import main

if __name__ == "__main__":
    main()
