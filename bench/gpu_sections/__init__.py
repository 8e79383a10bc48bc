"""The sections of bench/gpu.py: each module has run(bench), which prints its figures and returns its bars."""
