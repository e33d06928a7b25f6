"""`python -m curro`."""

from curro.cli import main

main()
