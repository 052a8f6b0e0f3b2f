"""One file per residual scheme; each defines `Config` and `Scheme`."""
