"""Operators in C++ for the CPU: what they are called (`operators`), and how they are built on first use (`build`)."""
