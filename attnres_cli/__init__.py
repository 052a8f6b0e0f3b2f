"""attnres: does replacing the residual connection pay, at your size, on your data, on your machine?"""

import os

__version__ = "0.1.0"

# On shared cores an actively waiting OpenMP pool burns the time that the other threads need: a step that takes 0.6 s
# took 10 s. libgomp reads the variable once, when torch loads it, so it is set here, before anything can import torch.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
