"""Measurements of what makes language-model inference cheap, made on the reader's machine."""

import warnings

__version__ = "0.1.0"

# transformers imports tqdm's notebook bars, which complain on the page where ipywidgets is absent.
warnings.filterwarnings("ignore", message="IProgress not found")
