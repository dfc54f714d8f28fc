"""Memory of a served model: tensors, their shards, the KV cache and the budget of a GPU."""
