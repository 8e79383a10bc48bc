"""Samples of several programs over the same cells, and statistics of them."""
import collections
import math
import statistics

PHASES = ("forward", "backward")


class Comparison:
    def __init__(self):
        self.samples = collections.defaultdict(list)  # by (who, cell, phase), of all passes

    def add(self, who, cell, phase, milliseconds):
        self.samples[who, cell, phase].extend(milliseconds)

    def median(self, who, cell, phase):
        """Returns infinity if there are no samples: out of memory, or not supported."""
        found = self.samples.get((who, cell, phase))
        return statistics.median(found) if found else math.inf

    def best(self, others, cell, phase):
        """Returns the median of the fastest of several programs, and its name."""
        return min((self.median(who, cell, phase), who) for who in others)

    def as_json(self):
        return [dict(cell._asdict(), who=who, phase=phase, samples=len(values),
                     median_ms=statistics.median(values) if values else None)
                for (who, cell, phase), values in self.samples.items()]


def geometric_mean(values):
    """Returns 0 or infinity if a value is; NaN for no values, which misses every bar."""
    if not values:
        return math.nan
    return 0.0 if 0 in values else statistics.geometric_mean(values)


def milliseconds(value):
    return "      none" if math.isinf(value) else f"{value:10.4f}"
