"""The executable article: vLLM's Transformers modeling backend against its native models."""
