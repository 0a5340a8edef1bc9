"""Progress bars and warnings of the libraries, kept out of notebooks."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partialmethod
from unittest.mock import patch

from tqdm import tqdm


@contextmanager
def quiet() -> Iterator[None]:
    """Silence transformers and the hub's client, except on a terminal, where someone is waiting.

    One of transformers' bars obeys none of its own switches and in a notebook becomes a widget, hence
    the change to tqdm's default.
    """
    if sys.stderr is not None and sys.stderr.isatty():
        yield
        return
    with _low_verbosity(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with patch.object(tqdm, "__init__", partialmethod(tqdm.__init__, disable=True)):
            yield


@contextmanager
def _low_verbosity() -> Iterator[None]:
    from huggingface_hub.utils import logging as hub_logging
    from transformers.utils import logging

    bars, level, hub_level = (
        logging.is_progress_bar_enabled(),
        logging.get_verbosity(),
        hub_logging.get_verbosity(),
    )
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    hub_logging.set_verbosity_error()
    try:
        yield
    finally:
        hub_logging.set_verbosity(hub_level)
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
