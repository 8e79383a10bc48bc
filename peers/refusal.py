"""The exception that says why a row has no figures."""


class Refusal(Exception):
    """`status` is that of ridgeline's records: oom, unsupported, invalid, wrong."""

    def __init__(self, status, error, next_step=""):
        super().__init__(error)
        self.status, self.error, self.next_step = status, error, next_step


def missing(package, error):
    """Returns the refusal for a failed import."""
    return Refusal("unsupported", f"{package} cannot be imported: {error}",
                   f"pip install {package} for the interpreter that RIDGELINE_PYTHON names, or python3 on PATH")
