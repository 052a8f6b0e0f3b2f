"""The most FLOP/s that a device's maker promises: what a utilisation is a share of.

NVIDIA's data sheets, dense (without sparsity), in TFLOP/s: bfloat16 with float32 accumulation, and TF32, which is what
float32 matrix products run in here (`train.device.set_up`). A device that is not listed has no utilisation: a guess
would be worse than none. The same holds for CPUs, whose peak depends on clocks that change with the load.
"""

from __future__ import annotations

import re

# The name as torch.cuda.get_device_name gives it; a slice of a device ("… MIG 1g.10gb") must not match.
_PEAKS_TFLOPS: tuple[tuple[str, dict[str, float]], ...] = (
    (r"NVIDIA A100[- ](SXM4|PCIE|PCIe)-\d+GB|NVIDIA A100 \d+GB PCIe", {"bf16": 312.0, "fp32": 156.0}),
    (r"NVIDIA H100 80GB HBM3", {"bf16": 989.4, "fp32": 494.7}),
    (r"NVIDIA H100 PCIe", {"bf16": 756.0, "fp32": 378.0}),
    (r"NVIDIA H200", {"bf16": 989.4, "fp32": 494.7}),
)


def peak_flops_per_second(device_name: str, precision: str) -> float | None:
    """precision: as in the preset, "fp32" or "bf16". None for a device that is not listed."""
    for pattern, peaks in _PEAKS_TFLOPS:
        if re.fullmatch(pattern, device_name):
            return peaks[precision] * 1e12
    return None
