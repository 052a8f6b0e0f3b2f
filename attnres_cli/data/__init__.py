"""From text on disk to batches of token ids: corpora, tokenizers, a cache, and an order of windows that never changes.

Nothing here imports torch. `prepare.prepare(preset)` is the door in, `batches.Batches` the door out.
"""
