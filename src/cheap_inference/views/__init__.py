"""One module a section: pure functions from a record to its tables, figures and sentences."""
