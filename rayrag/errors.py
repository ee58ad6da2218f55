"""The only errors a user sees. Each names the value, the expectation and the mend, in one line."""


class RayragError(Exception):
    """Base of the two kinds of error; `exit_code` is what the command line ends with."""

    exit_code = 1


class InputError(RayragError):
    """The request cannot be carried out as asked: a wrong path, value or configuration (exit code 2)."""

    exit_code = 2


class IntegrityError(RayragError):
    """What is stored, or the service behind it, cannot be relied on (exit code 3)."""

    exit_code = 3
