"""The sections of bench/python_gpu.py: each module has functions that return rows of figures, and run in processes of their
own."""

import os
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent.parent / "tests" / "python"))


def use_new_caches(folder):
    """Lets both sides keep what they compile in new folders within this one."""
    for variable in ("RIDGELINE_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        os.environ[variable] = os.path.join(folder, variable)
        os.makedirs(os.environ[variable], mode=0o700)
