"""`python -m autocl` is the command line, too; torchrun starts it this way."""

from autocl.cli.main import main

if __name__ == "__main__":
    main()
