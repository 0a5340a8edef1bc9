"""Models: which one is meant, where it comes from, and how it is loaded.

Importing this package costs neither torch nor transformers; `cheap_inference.models.load` does.
"""

import os

from .device import resolve_device
from .registry import KNOWN_MODELS, ModelSpec, resolve

__all__ = ["KNOWN_MODELS", "ModelSpec", "resolve", "resolve_device"]

# torch's threads spin while they wait unless told otherwise before torch is imported; on a machine with a
# busy neighbour that makes a step many times slower. A reader's own setting wins.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
