"""Shared settings of the tests."""

from hypothesis import settings

settings.register_profile("coad", deadline=None, derandomize=True)
settings.load_profile("coad")
