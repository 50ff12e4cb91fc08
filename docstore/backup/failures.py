"""Reasons why a backup, or the contents of a repository, cannot be used."""

from __future__ import annotations

from docstore.tools.terminal import ToolFailed


class Damaged(ToolFailed):
    """A file of the repository is missing, truncated or changed."""


class DamageBeside(ToolFailed):
    """The work is done, and the repository has backups that are damaged."""

    label = "Damaged"
    exit_code = 3
    """Not 2, click's exit code for an unknown command."""


class Diverged(ToolFailed):
    """The set has rolled back entries of the checkpoint: another attempt may succeed."""


class OutOfReach(ToolFailed):
    """The repository does not hold the state of the requested time."""
