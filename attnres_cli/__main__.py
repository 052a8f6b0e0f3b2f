"""`python -m attnres_cli` is the same program as `attnres`."""

from attnres_cli.cli.app import main

if __name__ == "__main__":
    main()
