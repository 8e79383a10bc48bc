"""python -m ridgeline ARGS, and `ridgeline ARGS` if the wheel is installed: runs the program, whose doctor also reports
on Python."""

import os
import signal
import subprocess
import sys

from . import _program


def python_facts():
    """Yields (what, finding) about this Python: the libraries whose arrays attention() accepts."""
    import ridgeline
    from ridgeline import _library

    yield "Python", f"{sys.version.split()[0]}, {sys.executable}"
    yield "ridgeline", f"{ridgeline.__version__}, {_library.library_path()}"
    for name, use in (("numpy", "arrays on the CPU"), ("torch", "tensors with gradients"), ("cupy", "arrays on a GPU"),
                      ("jax", "arrays"), ("ml_dtypes", "bfloat16 in numpy")):  # fmt: skip
        try:
            yield name, f"{__import__(name).__version__}: {use}"
        except ImportError:
            yield name, f"not installed; it would bring {use}"
        except Exception as problem:
            yield name, f"does not import: {problem}"
    for what, device in (("CPU", _library.CPU), ("GPU 0", _library.CUDA)):
        try:
            _library.context_for(device, 0)
            yield what, "attention runs"
        except ridgeline.Error as problem:
            yield what, f"attention does not run: {problem}"


def main():
    arguments = sys.argv[1:]
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # so that `doctor | head` ends quietly
    if arguments == ["doctor"]:
        print("Python")
        for what, finding in python_facts():
            print(f"  {what:<10} {finding}")
        print(flush=True)
    path = _program.path()
    if not os.access(path, os.X_OK):
        print("ridgeline: " + _program.missing(path), file=sys.stderr)
        return 4
    if arguments == ["doctor"]:
        return subprocess.call([path, *arguments])
    os.execv(path, [path, *arguments])


if __name__ == "__main__":
    sys.exit(main())
