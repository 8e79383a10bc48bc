"""Checks the harness against independent clocks: ridgeline's machine code, launched and timed by PyTorch."""
import ctypes
import pathlib
import re
import tempfile

import torch

from . import peers
from .bars import Section, at_most
from .comparison import Comparison
from .ridgeline import Cell, cell_of, samples

# Heads so narrow that every GPU runs the portable kernel, whose parameters need no tensor maps of the driver, and so long
# that it does not matter that ours start while the kernel before them ends.
CELLS = [Cell("bf16", 4, 16, 4096, 16), Cell("bf16", 4, 16, 8192, 16)]
CALLS, WARMUPS, ITERATIONS, QUICK_ITERATIONS = 10, 20, 60, 20
LIMIT_PERCENT = 3
MAX_DYNAMIC_SHARED_BYTES = 8  # of CUfunction_attribute
TENSOR_MAP_ALIGNMENT = 64
FAR = 1 << 30  # beyond every key: nothing is masked


def read_struct(name, header, types):
    """Returns the ctypes equivalent of a struct in params.h, of which the dump has a copy."""
    body = re.search(rf"struct {name} {{(.*?)}};", header, re.DOTALL)
    if body is None:
        raise RuntimeError(f"the dumped params.h has no struct {name}")
    counts = dict(re.findall(r"constexpr int (\w+) = (\d+);", header))
    fields = []
    for declaration in re.sub(r"//[^\n]*", "", body[1]).replace("const ", "").split(";"):
        declaration = declaration.strip()
        if not declaration:
            continue
        base = next((base for base in types if declaration.startswith(base)), None)
        if base is None:
            raise RuntimeError(f"struct {name} has '{declaration}', which this check does not know")
        for declarator in declaration[len(base):].split(","):
            type_ = ctypes.c_void_p if "*" in declarator else types[base]
            field, _, count = declarator.strip("* \n]").partition("[")
            fields.append((field, type_ * int(counts[count]) if count else type_))
    return type(name, (ctypes.Structure,), {"_fields_": fields})


def forward_params(header):
    """Returns the ctypes equivalents of FlashTensor and FlashForwardParams, whose tensor maps come first."""
    types = {"long long": ctypes.c_longlong, "int": ctypes.c_int, "float": ctypes.c_float, "void": ctypes.c_void_p,
             "unsigned": ctypes.c_uint, "TensorMap": ctypes.c_ulonglong * 16, "VisibleRange": ctypes.c_int * 2}
    for name in ("FlashTensor", "FlashOperand", "FlashForwardParams"):
        types[name] = read_struct(name, header, types)
    return types["FlashTensor"], types["FlashForwardParams"]


def dumped_kernel(ridgeline, cell, folder):
    """Returns the path of the forward kernel's machine code, and the constants that it was compiled with."""
    ridgeline.rows("kernel", impl="flash", dtype=cell.dtype, shape=[cell.shape], mode="hot", calls_per_sample=1,
                   num_warmup=0, num_iterations=1, no_verify=True, dump_kernels=folder)
    sources = [path for path in pathlib.Path(folder).glob("*.cu") if path.name.startswith("flash_forward")]
    if len(sources) != 1:
        raise RuntimeError(f"{len(sources)} forward kernels were dumped for {cell}, expected one")
    constants = dict(re.findall(r"^#define (\w+) (\S+)$", sources[0].read_text(), re.MULTILINE))
    return sources[0].with_suffix(".cubin"), constants


class ForwardKernel:
    """Ridgeline's machine code, on PyTorch's tensors and stream."""

    def __init__(self, cell, cubin, constants, header):
        (self.q, self.k, self.v), _ = peers.inputs(cell, gradients=False)
        self.out = torch.full_like(self.q, float("nan"))
        self.log_sum_exp = torch.empty(cell.shape[:3], device="cuda")
        self.driver = ctypes.CDLL("libcuda.so.1")
        module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        self.check(self.driver.cuModuleLoadData(ctypes.byref(module), cubin.read_bytes()))
        self.check(self.driver.cuModuleGetFunction(ctypes.byref(self.function), module, b"flash_forward"))
        # Grid and shared memory: src/kernels/cuda/attention/flash_forward.cc and flash_tiles.cc.
        number = {name: int(value) for name, value in constants.items() if value.isdigit()}
        if number["GROUPED"] or number["MASK"]:
            raise RuntimeError("this check starts kernels without a mask only")
        tiles = -(-cell.length // number["ROWS"])
        self.grid = (tiles, cell.heads, cell.batch)
        self.threads = 32 * number["WARPS"]
        self.shared = (2 * number["HEAD_DIM"] + 16) * (number["ROWS"] + 2 * number["STAGES"] * number["KEYS"])
        self.check(self.driver.cuFuncSetAttribute(self.function, MAX_DYNAMIC_SHARED_BYTES, self.shared))
        self.params = self.parameters(cell, tiles, header)
        self.arguments = (ctypes.c_void_p * 1)(ctypes.addressof(self.params))

    def parameters(self, cell, tiles, header):
        """Returns what an unmasked forward pass of plain heads reads; everything else is zero."""
        tensor, params = forward_params(header)
        scale = cell.width ** -0.5
        values = {"log_sum_exp": self.log_sum_exp.data_ptr(), "batches": cell.batch, "heads": cell.heads, "group": 1,
                  "queries": cell.length, "keys": cell.length, "query_tiles": tiles, "heads_at_once": 1,
                  "scale": scale, "scale_log2": scale * 1.4426950408889634, "mask_first": -FAR, "mask_last": FAR}
        for name in ("q", "k", "v", "out"):
            values[name] = tensor(getattr(self, name).data_ptr(), *getattr(self, name).stride())
        made = params.from_buffer(bytearray(ctypes.sizeof(params) + TENSOR_MAP_ALIGNMENT))  # the kernel's struct is padded
        for name, value in values.items():
            setattr(made, name, value)
        return made

    def check(self, result):
        if result != 0:
            raise RuntimeError(f"the driver answered {result}")

    def __call__(self):
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        self.check(self.driver.cuLaunchKernel(self.function, *self.grid, self.threads, 1, 1, self.shared, stream,
                                              self.arguments, None))

    def require_right(self):
        self()
        expected = peers.sdpa(False)(self.q.float(), self.k.float(), self.v.float())
        error = (self.out.float() - expected).abs().max().item()
        if not error < 0.02:
            raise RuntimeError(f"started from PyTorch, the kernel is off by {error}")


def by_events(kernel, iterations):
    timer, taken = peers.Timer(), []

    def calls():
        for _ in range(CALLS):
            kernel()
    for _ in range(WARMUPS + iterations):
        calls()  # the queue is not empty when the clock starts, as in ridgeline
        taken.append(timer(calls)[0] / CALLS)
    return taken[WARMUPS:]


def by_profiler(kernel):
    """Returns the milliseconds of single kernels by PyTorch's profiler (CUPTI); empty if it fails."""
    try:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            for _ in range(WARMUPS + 5 * CALLS):
                kernel()
            torch.cuda.synchronize()
        times = [event.time_range.elapsed_us() / 1e3 for event in profile.events() if "flash_forward" in event.name]
        return times[WARMUPS:]
    except RuntimeError as error:
        print(f"   profiler: {error}")
        return []


def our_pass(ridgeline, iterations, comparison):
    for record in ridgeline.rows("kernel", impl="flash", dtype="bf16", shape=[cell.shape for cell in CELLS],
                                 mode="hot", calls_per_sample=CALLS, num_warmup=WARMUPS,
                                 num_iterations=iterations, no_verify=True):
        comparison.add("ours", cell_of(record), "forward", samples(record, "forward"))


def run(bench):
    iterations = QUICK_ITERATIONS if bench.quick else ITERATIONS
    comparison, kernels = Comparison(), {}
    for cell in CELLS:
        with tempfile.TemporaryDirectory(prefix="ridgeline-kernels-") as folder:
            cubin, constants = dumped_kernel(bench.ridgeline, cell, folder)
            kernels[cell] = ForwardKernel(cell, cubin, constants, (pathlib.Path(folder) / "params.h").read_text())
        kernels[cell].require_right()
    for who in bench.passes:
        if who == "ours":
            our_pass(bench.ridgeline, iterations, comparison)
            continue
        for cell, kernel in kernels.items():
            comparison.add("events", cell, "forward", by_events(kernel, iterations))
    for cell, kernel in kernels.items():
        comparison.add("profiler", cell, "forward", by_profiler(kernel))
    return judge(comparison)


def judge(comparison):
    differences = []
    for cell in CELLS:
        ours, events, profiler = (1e3 * comparison.median(who, cell, "forward")
                                  for who in ("ours", "events", "profiler"))
        differences.append(100 * abs(ours / events - 1))
        print(f"   {','.join(map(str, cell.shape))}: ridgeline {ours:.2f} us; PyTorch's events {events:.2f} us "
              f"({100 * (ours / events - 1):+.2f} %), its profiler {profiler:.2f} us "
              f"({100 * (ours / profiler - 1):+.2f} %)")
    return Section([at_most("harness against PyTorch's events, same machine code, %", max(differences),
                            LIMIT_PERCENT)], comparison.as_json())
