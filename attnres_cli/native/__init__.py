"""Operators in C++ for the CPU: what they are called (`operators`), and how they are built on first use (`build`)."""

# Where gradients that are written out for the CPU are used. The meta device follows the CPU, so that a memory estimate
# sees what a CPU step keeps.
PLAIN_PASS_DEVICES = ("cpu", "meta")
