"""Corpora: every file here is one kind of corpus.

A corpus has `Config` (its keys of [data]), `GIVES` (Document, TokenDocument or TokenFile) and
`documents(config, base_folder)`, which gives the same documents in the same order each time it is called. A corpus that
gives no text also says its `vocabulary_size(config)`, and may `decode(config, ids)`.

What it can say without reading: `missing(config, base_folder)`, what training would refuse to start without, and its
size, `text_size(config, base_folder)` in bytes and documents or, of token documents, `num_tokens(config)`.
"""
