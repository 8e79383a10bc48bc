"""Measures the host cost of a call from Python without PyTorch's kernels and a driver's launches, without a GPU.

  export PYTHONPATH=python RIDGELINE_LIBRARY=build/release/libridgeline.so
  python3 bench/python_cost.py build/release/tests/libfake_gpu.so

The library uses a stand-in for NVIDIA's driver that does nothing (tests/jit/fake_gpu.cc); NVRTC is real. Tensors are
PyTorch's on the CPU, described to the library as a GPU's, so that memory comes from PyTorch's CPU allocator. Figures
are CPU time of this thread, minimum of several rounds, which other processes hardly affect. bench/python_gpu.py
measures on a real GPU.
"""

import argparse
import glob
import os
import pathlib
import sys
import tempfile
import time

ROUNDS, CALLS = 9, 2000


def stand_in(driver):
    """Makes a folder with the driver and this machine's NVRTC for RIDGELINE_CUDA_LIBRARIES."""
    folder = tempfile.TemporaryDirectory()
    os.symlink(pathlib.Path(driver).resolve(), os.path.join(folder.name, "libcuda.so.1"))
    places = [os.path.join(path, "nvidia", "*", "lib") for path in sys.path]
    places += ["/usr/local/cuda*/lib*", "/usr/lib/x86_64-linux-gnu"]
    for place in places:
        found = {os.path.basename(path): path for path in glob.glob(os.path.join(place, "libnvrtc*.so.*")) if ".alt." not in path}
        if found:  # unique by name: /usr/local/cuda is often a link to another of these folders
            for name, path in found.items():
                os.symlink(path, os.path.join(folder.name, name))
            return folder
    sys.exit("no NVRTC on this machine: pip install nvidia-cuda-nvrtc")


def least_us(call):
    for _ in range(CALLS // 10):
        call()
    times = []
    for _ in range(ROUNDS):
        start = time.thread_time()
        for _ in range(CALLS):
            call()
        times.append((time.thread_time() - start) / CALLS * 1e6)
    return min(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("driver", help="libfake_gpu.so of a build with tests")
    folder = stand_in(parser.parse_args().driver)
    os.environ["RIDGELINE_CUDA_LIBRARIES"] = folder.name

    import torch

    import ridgeline
    from python_sections.cost import _Nothing as Nothing
    from ridgeline import _library
    from ridgeline.torch import _kernels

    torch.set_num_threads(1)
    _library.CPU = _library.CUDA
    q, k, v = (torch.randn(1, 4, 128, 64, dtype=torch.bfloat16) for _ in range(3))
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    plan = _kernels.plan(q, k, v, 0.0, 0, 0, False)
    out, lse = plan.run(q, k, v)
    run = plan.call.pack(plan.call.size, plan.call.handle, 0, 0, 0, *(x.data_ptr() for x in (q, k, v, out, lse)))
    print(f"PyTorch {torch.__version__}, Python {sys.version.split()[0]}")
    for name, call in {
        "the C call, by ctypes": lambda: _kernels.start(run),
        "the plan is found": lambda: _kernels.plan(q, k, v, 0.0, 0, 0, False),
        "and run": lambda: plan.run(q, k, v),
        "attention() without gradients": lambda: ridgeline.attention(q, k, v),
        "attention() with autograd": lambda: ridgeline.attention(*leaves),
        "an autograd.Function that computes nothing": lambda: Nothing.apply(*leaves, 0),
        "forward and backward": lambda: torch.autograd.grad(ridgeline.attention(*leaves), leaves, out),
        "of one that computes nothing": lambda: torch.autograd.grad(Nothing.apply(*leaves, 0), leaves, out),
    }.items():
        print(f"{name:<44} {least_us(call):6.2f} us", flush=True)


if __name__ == "__main__":
    main()
