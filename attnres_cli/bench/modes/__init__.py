"""What a bench times, one file each: `UNIT`, `HAS_PROMPT` and `build` (see bench/work.py)."""
