"""Rows of a study as a list of flat dicts, which pandas accepts directly, together with the whole records."""

from .errors import Unsupported

_IDENTITY = ("study", "implementation", "device", "status", "error")


class Records(list):
    """Flat dicts, one for each row: pandas.DataFrame(records), or records.to_pandas().

    raw        the records as the program wrote them, with samples and machine (docs/records.md)
    text       the program's output: tables and sentences
    notes      the sentences in it
    command    the command line that repeats the run
    exit_code  of the program: 3 if a row is wrong, 1 if a gate failed
    """

    def __init__(self, rows=(), raw=(), text="", command="", exit_code=0):
        super().__init__(rows)
        self.raw, self.text, self.command, self.exit_code = list(raw), text, command, exit_code

    @property
    def notes(self):
        lines = self.text.splitlines()
        return [line[4:] for line in lines if line.startswith("  - ")]

    def to_pandas(self):
        try:
            import pandas
        except ImportError:
            raise Unsupported("to_pandas() needs pandas: pip install pandas; a list of dicts is there without it") from None
        return pandas.DataFrame(list(self))


def rows_of(record):
    """Returns the flat rows of a record: one, or one for each line of the folds of a profile."""
    metrics = record.get("metrics") or {}
    if "folds" not in metrics:
        return [flat(record)]
    whole = {**record, "metrics": {}}
    lines = [{**flat(whole), "by": by, **_scalars(line)} for by, lines in metrics["folds"].items() for line in lines]
    return lines or [flat(whole)]


def flat(record):
    """Returns one row: identifying fields under their own names, statistics as forward_median_ms, other fields also
    joined by underscores. Lists, machine, build and samples stay in the record."""
    row = {name: record[name] for name in _IDENTITY if name in record}
    for part in ("workload", "settings"):
        _join(row, record.get(part), part)
    for name, series in (record.get("series") or {}).items():
        for statistic, value in (series.get("statistics") or {}).items():
            row[f"{name}_{statistic}"] = value
    _join(row, record.get("memory"), "memory")
    tensors = (record.get("verification") or {}).get("tensors") or {}
    parts = [x["max_error"] / x["tolerance"] for x in tensors.values() if x.get("tolerance") and x.get("max_error") is not None]
    if parts:
        row["error_over_tolerance"] = max(parts)
    _join(row, record.get("cost"), "cost")
    _join(row, record.get("metrics"), "metrics")
    for name in ("run", "time", "command"):
        if name in record:
            row[name] = record[name]
    return row


def _join(row, part, prefix):
    """Adds the scalars of `part` to `row`; names that are already used get the prefix."""
    for name, value in _scalars(part or {}).items():
        row[name if name not in row else f"{prefix}_{name}"] = value


def _scalars(part, before=""):
    found = {}
    for name, value in part.items():
        if isinstance(value, dict):
            found.update(_scalars(value, f"{before}{name}_"))
        elif not isinstance(value, list):
            found[before + name] = value
    return found
