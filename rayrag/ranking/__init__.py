"""Total orders, merging and fusion: pure functions over scores and ids."""
