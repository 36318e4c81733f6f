"""Two ways for a stage to fail, told apart by who must act."""


class StageError(Exception):
    """A stage cannot go on; the text says what is wrong and what to change."""


class PermanentError(StageError):
    """The user must change something; the Job is not tried again."""


class TransientError(StageError):
    """Another attempt may succeed: a server that is gone, a full disk, a lost node."""


class TerminatedError(StageError):
    """The pod was asked to stop; what is finished stays on the volume for the next attempt."""
