"""One module a section: the measurements that its notebook asks for.

`from cheap_inference.experiments import name` gives a stand-in that imports the module at its first use.
A notebook that replays its records measures nothing, and importing torch and transformers would be most
of the time it takes.
"""

from importlib import import_module
from importlib.util import find_spec


class _Deferred:
    """A module that is imported when one of its attributes is asked for.

    Not importlib's LazyLoader: that one sits in `sys.modules`, where torch, while it is being imported
    itself, looks at every module.
    """

    __slots__ = ("_name",)  # and no `__dict__`: that of the module answers

    def __init__(self, name: str) -> None:
        object.__setattr__(self, "_name", name)

    def __getattr__(self, attribute: str) -> object:
        return getattr(import_module(self._name), attribute)

    def __setattr__(self, attribute: str, value: object) -> None:
        setattr(import_module(self._name), attribute, value)

    def __delattr__(self, attribute: str) -> None:
        delattr(import_module(self._name), attribute)


def __getattr__(name: str) -> _Deferred:
    full_name = f"{__name__}.{name}"
    if find_spec(full_name) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _Deferred(full_name)
