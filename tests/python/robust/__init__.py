"""The checks of tests/python/robust.py, one module per kind of fault."""
