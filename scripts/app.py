"""The command `sase_hf app`, for a clone of the repository."""

from sase_hf.commands.app import main

if __name__ == "__main__":
    main()
