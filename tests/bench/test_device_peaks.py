"""Peaks are known for whole devices that are listed, and for nothing that merely looks like one."""

from __future__ import annotations

import pytest

from attnres_cli.bench.device_peaks import peak_flops_per_second


@pytest.mark.parametrize(
    ("name", "bf16", "fp32"),
    [
        ("NVIDIA A100-SXM4-80GB", 312e12, 156e12),
        ("NVIDIA A100-PCIE-40GB", 312e12, 156e12),
        ("NVIDIA A100 80GB PCIe", 312e12, 156e12),
        ("NVIDIA H100 80GB HBM3", 989.4e12, 494.7e12),
        ("NVIDIA H100 PCIe", 756e12, 378e12),
        ("NVIDIA H200", 989.4e12, 494.7e12),
    ],
)
def test_listed_devices(name: str, bf16: float, fp32: float) -> None:
    assert peak_flops_per_second(name, "bf16") == bf16
    assert peak_flops_per_second(name, "fp32") == fp32


@pytest.mark.parametrize(
    "name", ["NVIDIA A100-SXM4-40GB MIG 1g.5gb", "NVIDIA H200 NVL", "NVIDIA H100 NVL", "Tesla V100-SXM2-16GB", ""]
)
def test_others_have_no_utilisation(name: str) -> None:
    assert peak_flops_per_second(name, "bf16") is None
