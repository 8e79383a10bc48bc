"""The sections of bench/python_gpu.py: functions that return rows of figures and run in their own processes."""

import os
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent.parent / "tests" / "python"))


def use_new_caches(folder):
    """Points the kernel caches of both sides to new folders inside `folder`."""
    for variable in ("RIDGELINE_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        os.environ[variable] = os.path.join(folder, variable)
        os.makedirs(os.environ[variable], mode=0o700)
