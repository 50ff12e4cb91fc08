"""Why a backup, or what stands in a repository, is of no use."""

from __future__ import annotations

from docstore.tools.terminal import ToolFailed


class Damaged(ToolFailed):
    """A file of the repository is missing, cut off or not what it was."""


class DamageBeside(ToolFailed):
    """The work is done, and the repository has backups that are damaged."""

    label = "Damaged"
    exit_code = 3
    """Not 2, by which click says that there is no such command."""


class Diverged(ToolFailed):
    """The set has taken back what the checkpoint holds: another attempt may succeed."""


class OutOfReach(ToolFailed):
    """The repository does not hold the state of the time that was asked for."""
