"""Everything that starts or imports vLLM: checkpoint, server, client, guard."""
