"""Translations of the book: what there is to translate, the catalogues, their checks, and their use."""
