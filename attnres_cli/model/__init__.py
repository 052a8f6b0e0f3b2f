"""The decoder-only trunk that every residual scheme runs on. Knows no scheme by name."""

# Where the written-out CPU gradients are used. The meta device follows the CPU, so that a memory estimate sees what
# a CPU step keeps.
PLAIN_PASS_DEVICES = ("cpu", "meta")
