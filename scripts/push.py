"""The command `sase_hf push`, for a clone of the repository."""

from sase_hf.commands.push import main

if __name__ == "__main__":
    main()
