"""JAX's attention: a jitted formula, and jax.nn.dot_product_attention by XLA or cuDNN."""
import math
import os
import time

from .process_memory import Growth
from .refusal import Refusal, missing

# Or JAX would take most of the GPU's memory at start.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
try:
    import jax
    import jax.numpy as jnp
    import numpy
except ImportError as problem:
    raise missing("jax", problem) from problem

DTYPES = {"fp32": jnp.float32, "tf32": jnp.float32, "bf16": jnp.bfloat16, "fp16": jnp.float16}
PRECISIONS = {"tf32": "tensorfloat32"}
PLATFORMS = {"cuda": "gpu", "cpu": "cpu"}


def naive(causal, scale):
    def attention(q, k, v):  # batch, heads, sequence, width
        scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) * scale
        if causal:
            rows, columns = scores.shape[-2:]
            scores = jnp.where(jnp.tril(jnp.ones((rows, columns), bool)), scores, -jnp.inf)
        return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores, axis=-1), v)
    return attention


def library(implementation):
    def make(causal, scale):
        def attention(q, k, v):  # batch, sequence, heads, width
            return jax.nn.dot_product_attention(q, k, v, is_causal=causal, scale=scale,
                                                implementation=implementation)
        return attention
    return make


IMPLEMENTATIONS = {"jax.naive": ("bhsd", naive), "jax.xla": ("bshd", library("xla")),
                   "jax.cudnn": ("bshd", library("cudnn"))}


def refusal_of(error):
    lines = str(error).strip().splitlines() or [type(error).__name__]
    if "RESOURCE_EXHAUSTED" in str(error):
        return Refusal("oom", lines[0])
    return Refusal("unsupported", lines[0], "choose another implementation, dtype or size")


class Problem:
    def __init__(self, request):
        self.request = request
        if request["study"] == "profile":
            raise Refusal("unsupported", "traces of JAX are not read", "profile one of PyTorch's implementations")
        kind, _, ordinal = request["device"].partition(":")
        if request["dtype"] == "tf32" and kind == "cpu":
            raise Refusal("unsupported", "tf32 is a GPU's", "use fp32, bf16 or fp16 on a CPU")
        if kind == "cpu":  # XLA starts one thread per core that it may run on
            os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:request["threads"]])
        try:
            self.device = jax.devices(PLATFORMS[kind])[int(ordinal or 0)]
        except (RuntimeError, IndexError) as error:
            raise Refusal("unsupported", f"JAX {jax.__version__} has no {request['device']}: {error}",
                          "pip install 'jax[cuda12]' for a GPU") from error
        self.has_queue = False  # samples are timed on the host, so there is no queue to keep busy
        self.leaves_memory_taken = kind == "cuda"  # JAX keeps its memory until the process ends
        self.gradients = request["gradients"]
        jax.config.update("jax_default_matmul_precision", PRECISIONS.get(request["dtype"], "highest"))
        self.layout, make = IMPLEMENTATIONS[request["implementation"]]
        attention = make(request["causal"], 1 / math.sqrt(request["shape"][3]))
        # With gradients, forward also returns what backward needs, a function that is a pytree.
        self.run_forward = jax.jit((lambda q, k, v: jax.vjp(attention, q, k, v)) if self.gradients
                                   else (lambda q, k, v: (attention(q, k, v), None)))
        self.run_backward = jax.jit(lambda pull_back, d_output: pull_back(d_output))
        self.copies = [self.load() for _ in range(request["copies"])]

    def load(self):
        names = ["q", "k", "v"] + (["d_output"] if self.gradients else [])
        tensors = {}
        for name in names:
            flat = numpy.fromfile(os.path.join(self.request["folder"], name), dtype=DTYPES[self.request["dtype"]])
            array = flat.reshape(self.request["shape"])
            if self.layout == "bshd":
                array = numpy.ascontiguousarray(array.swapaxes(1, 2))
            tensors[name] = jax.device_put(array, self.device)
        return tensors

    def forward(self, copy):
        tensors = self.copies[copy]
        self.last = self.run_forward(tensors["q"], tensors["k"], tensors["v"])
        return self.last

    def backward(self, copy, state):
        self.last = self.run_backward(state[1], self.copies[copy]["d_output"])
        return self.last

    def meet_every_kernel(self):
        try:
            state = jax.block_until_ready(self.forward(0))
            if self.gradients:
                jax.block_until_ready(self.backward(0, state))
        except (RuntimeError, ValueError, NotImplementedError, AssertionError) as error:
            raise refusal_of(error) from error

    def input_bytes(self):
        return sum(array.nbytes for copy in self.copies for array in copy.values())

    def run_watched(self, results):
        growth = Growth(self.input_bytes()) if self.device.platform == "cpu" else None
        state = jax.block_until_ready(self.forward(0))
        gradients = jax.block_until_ready(self.backward(0, state)) if self.gradients else ()
        facts = growth.facts() if growth else {}
        peak = (self.device.memory_stats() or {}).get("peak_bytes_in_use")
        if peak:
            facts["peak_bytes"] = peak
        if results:
            for name, array in zip(("output", "d_q", "d_k", "d_v"), (state[0], *gradients)):
                array = numpy.asarray(array)
                if self.layout == "bshd":
                    array = array.swapaxes(1, 2)
                numpy.ascontiguousarray(array).tofile(os.path.join(self.request["folder"], name))
        return facts

    def timed(self, work):
        """Times on the host until the result is complete: JAX exposes no device clock."""
        begin = time.perf_counter()
        result = work()
        jax.block_until_ready(self.last)
        return 1e3 * (time.perf_counter() - begin), result

    def flush(self):
        if not hasattr(self, "flushed"):
            self.flushed = jnp.zeros(2 * self.request["cache_bytes"], dtype=jnp.uint8, device=self.device)
        self.flushed = jax.block_until_ready(self.flushed + 1)

    def captured(self, _work):
        raise Refusal("unsupported", "JAX has no launch graphs to capture into", "measure hot or cold")

    def facts(self):
        return {"ran": f"{self.request['implementation']} on {self.device.platform}, jitted", "layout": self.layout,
                "clock": "host", "versions": {"jax": jax.__version__}}

    def check_after_samples(self):
        compiled = self.run_forward._cache_size()
        if compiled != 1:
            raise Refusal("invalid", f"JAX compiled the forward {compiled} times for one shape")

    def drop(self):
        self.copies = self.last = self.flushed = None
