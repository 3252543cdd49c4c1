"""What a history is judged by: a promise that it broke."""


class BrokenPromise(AssertionError):  # noqa: N818  # it is no error of a program
    """A promise that a history broke.

    *promise* names it in few words, the same for all histories that break it; *what* is what this
    history did.
    """

    def __init__(self, promise: str, what: str) -> None:
        super().__init__(f"{promise}: {what}")
        self.promise = promise
