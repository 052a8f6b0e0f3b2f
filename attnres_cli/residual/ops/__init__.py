"""Back ends of the depth-attention operator (residual/operator.py), one file each."""
