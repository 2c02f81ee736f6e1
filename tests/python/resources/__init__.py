"""The parts of tests/python/resources.py."""
