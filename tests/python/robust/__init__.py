"""What tests/python/robust.py does to servers, a module for each kind of trouble."""
