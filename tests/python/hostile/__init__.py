"""The attacks of tests/python/hostile.py, a module for each kind."""
