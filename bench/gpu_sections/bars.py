"""Bars: a figure, its target, and whether it meets the target."""
import dataclasses
import math


@dataclasses.dataclass
class Bar:
    name: str
    figure: str
    target: str
    passed: bool | None  # None: could not be measured here

    @property
    def verdict(self):
        return {True: "pass", False: "MISS", None: "not run"}[self.passed]


def at_most(name, value, limit, form="{:.2f}"):
    return Bar(name, form.format(value), "<= " + form.format(limit), value <= limit)


def at_least(name, value, limit, form="{:.2f}"):
    return Bar(name, form.format(value), ">= " + form.format(limit), value >= limit)


def not_run(name, why):
    return Bar(name, why, "", None)


def failed(name, why):
    return Bar(name, why, "", False)


@dataclasses.dataclass
class Section:
    bars: list[Bar]
    data: object = None  # what --json keeps
    seconds: float = 0

    def as_json(self):
        bars = [dict(dataclasses.asdict(bar), verdict=bar.verdict) for bar in self.bars]
        return {"seconds": self.seconds, "bars": bars, "data": finite(self.data)}


def finite(value):
    """Returns the same value with None for numbers that JSON cannot represent."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(key): finite(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(entry) for entry in value]
    return value


def print_bars(bars):
    wide = max((len(bar.name) for bar in bars), default=0)
    figure = max((len(bar.figure) for bar in bars if bar.target), default=0)
    target = max((len(bar.target) for bar in bars), default=0)
    for bar in bars:
        print(f"{bar.name:<{wide}}  {bar.verdict:<7}  {bar.figure:>{figure}}  {bar.target:<{target}}".rstrip())
