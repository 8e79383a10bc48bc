"""The roof of a device: from the data sheet of a GPU, or the ceilings that `ridgeline roofline` measured."""

from collections import namedtuple

from .errors import InvalidArgument, WrongType

Roof = namedtuple("Roof", "name flops_per_s bytes_per_s ridge")


def roof_of(given, dtype="fp32"):
    """Returns the roof for products in this dtype by a GPU's name or Records of ridgeline.roofline(); None for None."""
    if given is None or isinstance(given, Roof):
        return given
    if isinstance(given, str):
        from .lab.config import GPU_SPECS, get_ridge_point

        ridge = get_ridge_point(given, dtype)
        bytes_per_s = GPU_SPECS[given]["memory_bandwidth_tb_s"] * 1e12
        return Roof(GPU_SPECS[given]["name"], ridge * bytes_per_s, bytes_per_s, ridge)
    if not isinstance(given, list):
        raise WrongType(f"roof is {type(given).__name__}: expected a GPU's name, or what ridgeline.roofline() returned")
    rows = [row for row in given if row.get("ceiling") in ("compute", "memory") and row.get("status") == "ok"]
    flops = [row["gflops_per_s"] for row in rows if row["ceiling"] == "compute" and row.get("dtype") == dtype]
    rates = [row["gb_per_s"] for row in rows if row["ceiling"] == "memory" and row.get("level") == "memory"]
    if not flops or not rates:
        known = sorted({row.get("dtype") for row in rows if row["ceiling"] == "compute"})
        raise InvalidArgument(f"these records have no ceilings of {dtype!r} and of memory: dtypes are {', '.join(known) or 'none'}")
    return Roof("measured", max(flops) * 1e9, max(rates) * 1e9, max(flops) / max(rates))
