"""Checks that expose an unfaithful implementation: of the schemes here, and of a user's own module."""
