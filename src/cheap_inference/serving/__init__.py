"""A server that can be asked over a port: continuous batching behind a streaming endpoint on loopback."""
