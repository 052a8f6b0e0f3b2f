"""What other training programs (nanoGPT, LitGPT, Hugging Face's trainer, GPT-NeoX) call the keys of a preset.

Who types one of these names knows what is meant, only not what it is called here; likeness of letters cannot tell that
`n_embd` is `d_model`. The units may differ (steps there, tokens here): the name leads to the key, whose description
says its unit.
"""

from __future__ import annotations

from collections.abc import Iterable

from attnres_cli.errors import nearest_name

# section → our key → their names for it. None of them is a key of that section here.
_THEIRS = {
    "model": {
        "transformer_blocks": "n_layer n_layers num_layers num_hidden_layers layers depth n_blocks",
        "d_model": "n_embd n_embed hidden_size hidden_dim dim model_dim embed_dim embedding_dim emb_dim d_embed width",
        "num_heads": "n_head n_heads num_attention_heads heads nhead",
        "num_kv_heads": "n_kv_head n_kv_heads num_key_value_heads n_query_groups num_query_groups",
        "head_dim": "head_size d_head dim_head d_kv",
        "d_ff": "intermediate_size n_inner ffn_dim d_ffn ff_dim ffn_hidden_size mlp_dim mlp_hidden_dim dim_feedforward",
        "context_tokens": "block_size seq_len seq_length sequence_length max_seq_len max_seq_length context_length "
        "context_size n_ctx n_positions max_position_embeddings model_max_length",
        "rope_theta": "rope_base rotary_base rotary_emb_base",
        "norm_epsilon": "norm_eps eps rms_norm_eps layer_norm_eps layer_norm_epsilon",
        "tie_embeddings": "tie_word_embeddings tie_weights weight_tying",
        "init_std": "initializer_range",
    },
    "residual": {"scheme": "residual residual_type", "block_sublayers": "block_size"},
    "data": {
        "corpus": "dataset dataset_name",
        "files": "data_files train_files data_path",
        "tokenizer": "tokenizer_name tokenizer_path tokenizer_name_or_path",
        "validation_fraction": "val_split val_fraction val_ratio validation_split validation_split_percentage",
    },
    "train": {
        "horizon_tokens": "steps max_steps num_steps n_steps train_steps num_train_steps iters max_iters num_iters "
        "train_iters iterations epochs num_epochs num_train_epochs max_tokens total_tokens",
        "tokens_per_step": "global_batch_size total_batch_size train_batch_size batch_tokens",
        "micro_batch_sequences": "bs batch_size micro_batch_size device_batch_size per_device_train_batch_size "
        "train_micro_batch_size_per_gpu gradient_accumulation_steps grad_accum_steps",
        "optimizer": "optim opt",
        "learning_rate": "lr max_lr peak_lr base_lr",
        "muon_learning_rate": "muon_lr matrix_lr",
        "weight_decay": "wd",
        "beta1": "adam_beta1",
        "beta2": "adam_beta2",
        "adam_epsilon": "eps epsilon adam_eps",
        "grad_clip": "max_grad_norm clip clip_grad clip_grad_norm gradient_clipping gradient_clip_val",
        "schedule": "scheduler lr_scheduler lr_scheduler_type lr_schedule lr_decay_style",
        "warmup_fraction": "warmup warmup_steps warmup_iters warmup_ratio num_warmup_steps lr_warmup_steps",
        "decay_fraction": "lr_decay_iters lr_decay_steps cooldown cooldown_fraction cooldown_steps",
        "min_lr_ratio": "min_lr lr_min final_lr min_learning_rate",
        "precision": "dtype torch_dtype mixed_precision amp bf16 fp16",
        "checkpoint_activations": "gradient_checkpointing activation_checkpointing",
        "compile": "torch_compile use_compile",
        "device": "accelerator",
        "threads": "num_threads",
        "seed": "random_seed manual_seed rng_seed",
        "log_every_steps": "log_interval log_every log_freq logging_steps",
        "checkpoint_every_steps": "save_interval save_steps save_every checkpoint_interval ckpt_interval",
    },
    "eval": {
        "every_steps": "interval eval_interval eval_every eval_steps val_every val_check_interval",
        "tokens": "iters max_iters eval_iters eval_batches eval_tokens val_tokens",
    },
    "observe": {"every_steps": "interval"},
}
THEIRS = {
    section: {theirs: ours for ours, names in keys.items() for theirs in names.split()}
    for section, keys in _THEIRS.items()
}
# The schemes and corpora of these sections have keys of their own, which such a general name may rather mean.
_WITH_OWN_KEYS = ("residual", "data")
# What to say of keys that have no counterpart → their names.
_MISSING = {
    "no such key: nothing is dropped out here": "dropout dropout_p attention_dropout attn_dropout attn_pdrop "
    "resid_pdrop embd_pdrop hidden_dropout hidden_dropout_prob attention_probs_dropout_prob residual_dropout",
    "no such key: the linear maps of the trunk have no biases": "bias qkv_bias attention_bias mlp_bias",
}
NOT_HERE = {theirs: said for said, names in _MISSING.items() for theirs in names.split()}


def meant_name(section: str, name: str, keys: Iterable[str]) -> str | None:
    """The one of `keys`, those of this section, that `name` most likely means: what other programs call so, else the
    one whose initials it is, else a similar one; None for what there is not, or what is a key of another section."""
    known = list(keys)
    theirs = THEIRS.get(section, {}).get(_plain(name))
    if theirs in known:
        return theirs
    if not_here(name) or (elsewhere(name) and section not in _WITH_OWN_KEYS):
        return None
    return _by_initials(name, known) or nearest_name(name, known)


def elsewhere(name: str) -> str | None:
    """The "section.key" that other programs call `name`, in whichever section, None where it is none of their names."""
    return next((f"{section}.{keys[_plain(name)]}" for section, keys in THEIRS.items() if _plain(name) in keys), None)


def not_here(name: str) -> str | None:
    """What to say of a key of other programs that has no counterpart here, None for every other name."""
    return NOT_HERE.get(_plain(name))


def _plain(name: str) -> str:
    return name.lower().replace("-", "_")


def _by_initials(name: str, keys: Iterable[str]) -> str | None:
    """ "mbs" → micro_batch_sequences, where it is the only key with these initials."""
    found = [key for key in keys if "_" in key and "".join(word[:1] for word in key.split("_")) == name.lower()]
    return found[0] if len(found) == 1 else None
