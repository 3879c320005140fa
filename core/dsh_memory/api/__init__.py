"""The memory API (`spec`: xmemo): `/v1` over HTTP and MCP, on the same records as everything else."""
