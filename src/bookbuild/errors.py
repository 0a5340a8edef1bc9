"""Failures of a build that are no fault of what was asked."""


class BuildError(Exception):
    """A section or a page did not build: one line that says where and why. Commands exit with status 1."""


class Interrupted(Exception):
    """The build was told to stop. Commands exit with status 130."""
