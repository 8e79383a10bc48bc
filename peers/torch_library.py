"""PyTorch's attention, and that of libraries built on it."""
import contextlib
import os
import time
import warnings

from .process_memory import Growth, limit_memory
from .refusal import Refusal, missing

try:
    import torch
except ImportError as problem:
    raise missing("torch", problem) from problem

from . import torch_implementations  # noqa: E402  (needs torch)

DTYPES = {"fp32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
GRADIENTS = ("d_q", "d_k", "d_v")


def refusal_of(error, said=()):
    """Returns the refusal for a library's exception, or None for an unexpected one."""
    text = str(error).strip().splitlines()
    first = text[0] if text else type(error).__name__
    out_of_memory = (torch.OutOfMemoryError, MemoryError)
    if isinstance(error, out_of_memory) or "can't allocate memory" in str(error):
        return Refusal("oom", first)
    if "CUDA error" in str(error):
        return None
    if isinstance(error, (RuntimeError, NotImplementedError, ValueError, TypeError, AssertionError)):
        reasons = "; ".join(dict.fromkeys(str(each.message).splitlines()[0] for each in said))
        return Refusal("unsupported", first + (f" ({reasons})" if reasons else ""),
                       "choose another implementation, dtype or size")
    return None


@contextlib.contextmanager
def refusing():
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            yield
        except Refusal:
            raise
        except Exception as error:
            refusal = refusal_of(error, said)
            if refusal is None:
                raise
            raise refusal from error


class TorchProblem:
    """A problem that PyTorch runs on one device."""
    leaves_memory_taken = False

    def __init__(self, request):
        self.request = request
        self.device = torch.device(request["device"])
        self.has_queue = self.device.type == "cuda"
        self.set_up(request["precision"] if "precision" in request else request["dtype"])

    def set_up(self, precision):
        request = self.request
        if self.has_queue and not torch.cuda.is_available():
            raise Refusal("unsupported", f"PyTorch {torch.__version__} sees no GPU",
                          "install a PyTorch with CUDA, or measure with --device cpu")
        if precision == "tf32" and not self.has_queue:
            raise Refusal("unsupported", "tf32 is a GPU's", "use another precision on a CPU")
        # fp32 must not use TF32.
        torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
        torch.backends.cudnn.allow_tf32 = precision == "tf32"
        if self.has_queue:
            torch.cuda.set_device(self.device)
            total = torch.cuda.get_device_properties(self.device).total_memory
            torch.cuda.set_per_process_memory_fraction(min(1.0, request["budget_bytes"] / total))
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        else:
            torch.set_num_threads(request["threads"])
            limit_memory(request["budget_bytes"])

    def wait(self):
        if self.has_queue:
            torch.cuda.synchronize()

    def empty(self):
        """Releases the memory that the allocator caches."""
        if self.has_queue:
            torch.cuda.synchronize()
            torch.cuda.empty_cache()

    def shared_facts(self):
        versions = {"torch": torch.__version__}
        if self.has_queue:
            versions |= {"cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version()}
        return {"clock": "device events" if self.has_queue else "host", "versions": versions}


class Problem(TorchProblem):
    """One attention problem on one device."""

    def __init__(self, request):
        super().__init__(request)
        self.gradients = request["gradients"]
        with refusing():
            self.implementation = torch_implementations.make(request, self.device)
            self.copies = [self.load() for _ in range(request["copies"])]
        self.kernels = None

    def load(self):
        """Returns the tensors of one copy, from ridgeline's files, in the layout of the implementation."""
        names = ["q", "k", "v"] + (["d_output"] if self.gradients else [])
        tensors = {}
        for name in names:
            path = os.path.join(self.request["folder"], name)
            count = os.path.getsize(path) // DTYPES[self.request["dtype"]].itemsize
            flat = torch.from_file(path, size=count, dtype=DTYPES[self.request["dtype"]])
            tensor = flat.view(self.request["shape"])  # batch, heads, sequence, width
            if self.implementation.layout == "bshd":
                tensor = tensor.transpose(1, 2)
            tensor = tensor.contiguous().to(self.device, copy=True)
            tensors[name] = tensor.requires_grad_(self.gradients and name != "d_output")
        return tensors

    def input_bytes(self):
        return sum(tensor.nbytes for copy in self.copies for tensor in copy.values())

    def inputs(self, copy):
        return [self.copies[copy][name] for name in ("q", "k", "v")]

    def forward(self, copy):
        with torch.set_grad_enabled(self.gradients):
            return self.implementation(*self.inputs(copy))

    def backward(self, copy, output):
        keep = self.request["study"] == "kernel"  # its passes are timed separately and repeatedly
        return torch.autograd.grad(output, self.inputs(copy), self.copies[copy]["d_output"], retain_graph=keep)

    def step(self, phase=lambda _name: contextlib.nullcontext()):
        """Runs both passes, each inside of phase(NAME)."""
        with phase("forward"):
            output = self.forward(0)
        if self.gradients:
            with phase("backward"):
                self.backward(0, output)

    def run_once(self):
        output = self.forward(0)
        gradients = self.backward(0, output) if self.gradients else ()
        self.wait()
        return output, gradients

    def meet_every_kernel(self):
        """Runs once, so that all kernels are compiled, loaded and tuned, and checks that the requested code runs."""
        with refusing():
            self.run_once()
            self.kernels = self.kernel_names()
            probe = [tensor.detach().requires_grad_() for tensor in self.inputs(0)]
            with torch.enable_grad():
                self.ran = self.implementation.check(self.implementation(*probe))

    def kernel_names(self):
        """Returns the names of the GPU's kernels by the profiler; None if it fails, or if the study itself profiles."""
        if not self.has_queue or self.request["study"] == "profile":
            return None
        try:
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
                self.run_once()
            names = [event.key for event in profile.key_averages()
                     if not event.key.startswith(("cuda", "aten::", "Memcpy", "Memset"))]
            return [name[:120] for name in dict.fromkeys(names)][:20]
        except RuntimeError:
            return None

    def run_watched(self, results):
        """Runs once and returns its memory; writes the results to files if `results`."""
        with refusing():
            if self.has_queue:
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()
            growth = None if self.has_queue else Growth(self.input_bytes())
            output = self.forward(0)
            self.wait()
            facts = {"before_backward_bytes": torch.cuda.memory_allocated()} if self.has_queue else {}
            gradients = self.backward(0, output) if self.gradients else ()
            self.wait()
            if self.has_queue:
                facts["peak_bytes"] = torch.cuda.max_memory_allocated()
            else:
                facts |= growth.facts()
            if results:
                self.write("output", output)
                for name, gradient in zip(GRADIENTS, gradients):
                    self.write(name, gradient)
        return facts

    def write(self, name, tensor):
        tensor = tensor.detach()
        if self.implementation.layout == "bshd":
            tensor = tensor.transpose(1, 2)
        bits = torch.int32 if tensor.element_size() == 4 else torch.int16
        values = tensor.contiguous().cpu().view(bits).flatten()
        with open(os.path.join(self.request["folder"], name), "wb") as file:
            file.write(memoryview(values.numpy()))

    def timed(self, work):
        if not self.has_queue:
            begin = time.perf_counter()
            result = work()
            return 1e3 * (time.perf_counter() - begin), result
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        result = work()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end), result

    def flush(self):
        """Evicts everything from the last-level cache."""
        if not hasattr(self, "flushed"):
            self.flushed = torch.empty(2 * self.request["cache_bytes"], dtype=torch.uint8, device=self.device)
        self.flushed.add_(1)

    def captured(self, work):
        if not self.has_queue:
            raise Refusal("unsupported", "launch graphs are a GPU's", "measure hot or cold")
        with refusing():
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                work()
            self.wait()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=stream):
                work()
        return graph.replay

    def facts(self):
        shared = self.shared_facts()
        return shared | {"ran": self.ran, "layout": self.implementation.layout, "kernels": self.kernels,
                         "versions": shared["versions"] | self.implementation.versions}

    def check_after_samples(self):
        self.implementation.check_after_samples()

    def drop(self):
        self.copies = self.implementation = self.flushed = None
        self.empty()
