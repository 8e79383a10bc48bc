"""The sections of bench/python_gpu.py: each module has functions that return rows of figures, and run in processes of their
own."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent.parent / "tests" / "python"))
