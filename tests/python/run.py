"""run.py FILE: runs a file of tests with pytest. Exit code 77, with a line that says why, where something is missing that
the file needs: pytest, numpy, or PyTorch for files named test_torch_*."""

import importlib.util
import os
import sys

MISSING = 77


def main():
    path = sys.argv[1]
    needed = ["pytest", "numpy"] + ["torch"] * os.path.basename(path).startswith("test_torch_")
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        print(f"SKIPPED: {sys.executable} has no {' and no '.join(missing)}. Debian: apt-get install "
              + " ".join(f"python3-{name}" for name in missing))  # fmt: skip
        return MISSING
    import pytest

    code = pytest.main(["-q", "-rs", "-p", "no:cacheprovider", "-p", "no:logging", "--tb=short", *sys.argv[1:]])
    return MISSING if code == pytest.ExitCode.NO_TESTS_COLLECTED else code  # the file skipped itself, and said why


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    sys.exit(main())
