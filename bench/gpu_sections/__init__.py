"""The sections of bench/gpu.py: each module has run(bench), which prints its figures and returns its bars. Models in
PyTorch come from peers/."""
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent.parent))
