"""Text from a trained run: weights, prompt and sampling to token ids, one at a time, and to text."""
