"""Looking inside a trained model, off any training: magnitudes, gradients, depth weights, what can be left out."""
