"""Builders of real repositories and other helpers of the tests."""
