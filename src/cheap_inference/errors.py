"""The one exception a reader is meant to see: what is wrong and what to do, in one line."""


class UserError(Exception):
    """Bad input or a machine that cannot do what was asked.

    The message is a single line for the reader. Commands print it and exit with status 2;
    notebooks print it without a traceback.
    """

    def _render_traceback_(self) -> list[str]:
        """Tell IPython to show the message alone."""
        return [f"{type(self).__name__}: {self}"]
