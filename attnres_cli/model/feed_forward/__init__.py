"""Feed-forward networks, one file each, which defines `FeedForward(ModelConfig)`."""
