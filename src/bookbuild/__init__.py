"""Builds the book: notebooks in, a site out. The measurement package knows nothing of it."""
