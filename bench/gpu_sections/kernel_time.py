"""Sums the GPU time of a whole process, by a small CUPTI library that CUDA loads into it."""
import os
import pathlib
import subprocess
import sysconfig

SOURCE = pathlib.Path(__file__).with_suffix(".cc")


def cupti():
    """Returns the folders of CUPTI's headers and library, from PyTorch's wheels or a toolkit."""
    packages = pathlib.Path(sysconfig.get_path("purelib")) / "nvidia"
    toolkit = pathlib.Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))
    for root in [*sorted(packages.glob("cu*"), reverse=True), packages / "cuda_cupti", toolkit,
                 toolkit / "extras/CUPTI"]:
        for library in sorted(root.glob("lib*/libcupti.so*")):
            if (root / "include/cupti.h").is_file():
                return root / "include", library
    raise RuntimeError("no CUPTI beside PyTorch nor in a CUDA toolkit")


def build(folder):
    """Builds the library and returns its path; raises without CUPTI or a compiler."""
    include, library = cupti()
    target = pathlib.Path(folder) / "libkernel_time.so"
    # The wheels keep CUDA's own headers in a folder next to CUPTI's; some headers are only in a toolkit.
    toolkit = pathlib.Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "include"
    includes = [include, *include.parent.parent.glob("cuda_runtime/include"), toolkit]
    done = subprocess.run([os.environ.get("CXX", "c++"), "-std=c++17", "-O2", "-fPIC", "-shared", str(SOURCE),
                           *(f"-I{each}" for each in includes), str(library), f"-Wl,-rpath,{library.parent}",
                           "-o", str(target)], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"kernel_time.cc does not compile: {done.stderr.strip()[-300:]}")
    return target


def environment(library, sums):
    return {"CUDA_INJECTION64_PATH": str(library), "KERNEL_TIME_FILE": str(sums)}


def read(sums):
    """Returns the number of kernels, copies and fills, and their total milliseconds."""
    if not sums.is_file():
        raise RuntimeError("the profiler library left no figures: CUPTI did not start")
    count, nanoseconds = map(int, sums.read_text().split())
    return count, nanoseconds / 1e6
