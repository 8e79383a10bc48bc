"""Checks and times the Python package on an NVIDIA GPU beside PyTorch, and ends with a table of bars.

  ./lab wheel                                            where the internet is; it leaves build/wheels/ridgeline-*.whl
  python3 -m pip install --no-deps build/wheels/*.whl    on the machine with the GPU, which needs no internet
  python3 bench/python_gpu.py                            everything, in about five minutes
  python3 bench/python_gpu.py --only cost,problems       two sections

Instead of the wheel, `PYTHONPATH=python RIDGELINE_LIBRARY=build/release/libridgeline.so` serves. Needs PyTorch with CUDA
and NVRTC, which its wheels bring; 2.11 or newer for all sections. A model of transformers is timed where that is
installed, else a small GPT of its form. Kernels are compiled into new folders, so that nothing remembered from earlier runs counts.
Exit code: 0 no bar was missed, 1 one was, 2 no GPU.
"""

import argparse
import contextlib
import os
import pathlib
import sys
import tempfile
import time
import traceback

FOLDER = tempfile.TemporaryDirectory()
for variable in ("RIDGELINE_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
    os.environ[variable] = os.path.join(FOLDER.name, variable)
    os.makedirs(os.environ[variable], mode=0o700)

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "python"))
import ridgeline  # noqa: E402
import ridgeline.torch  # noqa: E402

BARS = []


class _NoPytest:
    """Stands in where pytest is not installed: the tests are called here as functions."""

    def __getattr__(self, name):
        return self

    def __call__(self, *args, **kwargs):
        return args[0] if len(args) == 1 and callable(args[0]) else self

    @contextlib.contextmanager
    def raises(self, kind, match=""):
        try:
            yield
        except kind as problem:
            assert match in str(problem), problem
        else:
            raise AssertionError(f"nothing was raised, expected {kind.__name__}")


try:
    import pytest  # noqa: F401
except ImportError:
    sys.modules["pytest"] = _NoPytest()


def bar(name, value, least=None, most=None, unit=""):
    """Notes a figure, and whether it reaches its bar."""
    missed = (least is not None and value < least) or (most is not None and value > most)
    aim = f">= {least}" if least is not None else f"<= {most}" if most is not None else ""
    BARS.append((name, f"{value:.2f} {unit}".strip(), aim, "MISSED" if missed else "ok" if aim else ""))
    print(f"  {name}: {value:.2f} {unit} {aim} {BARS[-1][3]}", flush=True)


def note(name, text):
    BARS.append((name, text, "", ""))
    print(f"  {name}: {text}", flush=True)


def median(values):
    return sorted(values)[len(values) // 2]


def host_us(call, calls=100, rounds=31):
    """Microseconds until a call returns; the GPU is waited for outside of the times."""
    for _ in range(20):
        call()
    times = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(calls):
            call()
        times.append((time.perf_counter() - start) / calls * 1e6)
    torch.cuda.synchronize()
    return median(times)


def gpu_ms(call, rounds=21, calls=1):
    """Milliseconds on the GPU's clock; several calls hide what the host takes, unless that is longer."""
    for _ in range(3):
        call()
    times = []
    for _ in range(rounds):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(calls):
            call()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / calls)
    return median(times)


def alternating_ms(first, second, rounds=15, calls=1):
    """Medians of both, measured in turns."""
    for call in (first, second):
        gpu_ms(call, 3)
    times = ([], [])
    for _ in range(rounds):
        for call, list_ in zip((first, second), times):
            list_.append(gpu_ms(call, 1, calls))
    return median(times[0]), median(times[1])


def random_inputs(*shape, dtype=torch.bfloat16, count=3, grad=False):
    torch.manual_seed(0)
    return [torch.randn(*shape, device="cuda", dtype=dtype).requires_grad_(grad) for _ in range(count)]


def cost():
    """A call from Python above the same call of the C interface, and autograd beside SDPA's."""
    from ridgeline.torch import _kernels

    q, k, v = random_inputs(1, 4, 128, 64)
    out, lse = _kernels.forward(q, k, v, 0.0, 0, 0)  # their addresses stay in the struct of the call
    call = next(reversed(_kernels._kept._free.values()))[0]
    of_c = host_us(lambda: call._function(call.context, call.params))
    direct = host_us(lambda: ridgeline.attention(q, k, v))
    note("C call", f"{of_c:.1f} us")
    bar("ridgeline.attention above the C call", direct - of_c, most=15, unit="us")
    note("SDPA without gradients", f"{host_us(lambda: F.scaled_dot_product_attention(q, k, v)):.1f} us")
    leaves = random_inputs(1, 4, 128, 64, grad=True)

    def step(attend):
        return lambda: torch.autograd.grad(attend(*leaves), leaves, out)

    ours, theirs = host_us(lambda: ridgeline.attention(*leaves)), host_us(lambda: F.scaled_dot_product_attention(*leaves))
    bar("forward with autograd, share of SDPA's", ours / theirs, most=0.5, unit=f"({ours:.1f} of {theirs:.1f} us)")
    ours, theirs = host_us(step(ridgeline.attention)), host_us(step(F.scaled_dot_product_attention))
    bar("forward and backward, share of SDPA's", ours / theirs, most=0.5, unit=f"({ours:.1f} of {theirs:.1f} us)")
    note("torch.ops.ridgeline.attention", f"{host_us(lambda: torch.ops.ridgeline.attention(q, k, v, 0.0, 0, 0, False)):.1f} us")


class Layer(torch.nn.Module):
    def __init__(self, width, heads, attend):
        super().__init__()
        self.heads, self.attend = heads, attend
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)
        self.norm, self.second_norm = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        x = x + self.out(self.attend(q, k, v).transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.second_norm(x))))


def small_gpt(attend, layers=4, width=768, heads=12):
    torch.manual_seed(0)
    return torch.nn.Sequential(*[Layer(width, heads, attend) for _ in range(layers)]).cuda().to(torch.bfloat16)


def by_sdpa(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def activated():
    """A model that calls scaled_dot_product_attention, as it is and with activate()."""
    try:
        from transformers import LlamaConfig, LlamaForCausalLM

        torch.manual_seed(0)
        config = LlamaConfig(hidden_size=1024, intermediate_size=2816, num_hidden_layers=8, num_attention_heads=16,
                             num_key_value_heads=16, vocab_size=32000, attn_implementation="sdpa")  # fmt: skip
        model = LlamaForCausalLM(config).cuda().to(torch.bfloat16)
        ids = torch.randint(0, 32000, (4, 2048), device="cuda")
        name, run = "Llama of 8 layers", lambda: model(ids).logits
    except ImportError:
        model = small_gpt(by_sdpa, layers=8, width=1024, heads=16)
        (x,) = random_inputs(4, 2048, 1024, count=1)
        name, run = "small GPT (no transformers here)", lambda: model(x)
    parameters = list(model.parameters())

    def train():
        torch.autograd.grad(run().float().square().mean(), parameters)

    with torch.no_grad():
        before, default = run(), gpu_ms(run)
    default_step = gpu_ms(train, 9)
    with ridgeline.torch.activate():
        with torch.no_grad():
            after, ours = run(), gpu_ms(run)
        ours_step = gpu_ms(train, 9)
    share = ((after - before).float().norm() / before.float().norm()).item()
    note(f"{name}: relative difference of outputs", f"{share:.1e}")
    bar(f"{name}: calls that came to our kernels", 0 if share == 0 else 1, least=1)  # equal bits: PyTorch's own ran
    bar(f"{name}: forward, activate() against default", default / ours, unit=f"x ({default:.2f} -> {ours:.2f} ms)")
    bar(f"{name}: forward and backward", default_step / ours_step, unit=f"x ({default_step:.2f} -> {ours_step:.2f} ms)")


def compiled():
    """torch.compile of a small GPT with our op and with SDPA."""
    (x,) = random_inputs(8, 2048, 768, count=1)
    models = [small_gpt(lambda q, k, v: ridgeline.attention(q, k, v, causal=True)), small_gpt(by_sdpa)]
    breaks = torch._dynamo.explain(models[0])(x).graph_break_count
    bar("graph breaks", breaks, most=0)
    torch._dynamo.reset()
    steps = []
    for model in models:
        fast = torch.compile(model, fullgraph=True)
        parameters = list(model.parameters())
        steps.append(lambda fast=fast, parameters=parameters: torch.autograd.grad(
            fast(x).float().square().mean(), parameters))  # fmt: skip
    ours, theirs = steps[0](), steps[1]()
    worst = max(((a - b).float().norm() / b.float().norm().clamp_min(1e-6)).item() for a, b in zip(ours, theirs))
    note("relative difference of gradients", f"{worst:.1e}")
    ours, theirs = alternating_ms(*steps)
    bar("compiled step, ours against SDPA", theirs / ours, least=1.0, unit=f"x ({theirs:.2f} -> {ours:.2f} ms)")


def score_functions():
    """Six functions beside FlexAttention: values, times, and the time to the first result."""
    from test_torch_score import SINKS, WINDOW, Six
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    torch._functorch.config.donated_buffer = False  # a backward is timed again and again
    batch, heads, length, width = 2, 16, 2048, 64
    cases = Six("cuda", torch.bfloat16, length, heads, batch).cases
    q, k, v, d_out = random_inputs(batch, heads, length, width, count=4)
    leaves = [x.requires_grad_() for x in (q, k, v)]
    (warm,) = random_inputs(1, 1, 16, width, count=1)
    ridgeline.attention(warm, warm, warm)  # the context of the GPU
    for name, (function, _, tables) in cases.items():
        document = dict(zip(function.__code__.co_freevars, [cell.cell_contents for cell in function.__closure__ or ()])).get("document")
        masks = {
            "document mask": lambda b, h, i, j: document[b, i] == document[b, j],
            "window with sinks": lambda b, h, i, j: (i >= j) & ((i - j < WINDOW) | (j < SINKS)),
        }
        torch._dynamo.reset()  # beyond a few functions PyTorch would stop to compile them
        flex = torch.compile(flex_attention)
        inputs = leaves + tables

        def ours(function=function):
            return ridgeline.attention(*leaves, score=function)

        def first(call):
            torch.cuda.synchronize()
            start = time.perf_counter()
            torch.autograd.grad(call(), inputs, d_out)
            torch.cuda.synchronize()
            return time.perf_counter() - start

        def theirs_at_first(function=function):
            nonlocal theirs
            if name in masks:
                block_mask = create_block_mask(masks[name], batch, None, length, length, "cuda")
                theirs = lambda: flex(*leaves, block_mask=block_mask)  # noqa: E731
            else:
                theirs = lambda: flex(*leaves, score_mod=function)  # noqa: E731
            return theirs()

        theirs = None
        try:
            our_first = first(ours)
            their_first = first(theirs_at_first)
            difference = (ours() - theirs()).abs().max().item()
            bar(f"{name}: largest difference to FlexAttention", difference, most=0.06)
            with torch.no_grad():
                a, b = alternating_ms(ours, theirs, calls=10)
            bar(f"{name}: forward", b / a, least=1.0, unit=f"x ({b:.3f} -> {a:.3f} ms)")
            outs = ours(), theirs()
            a, b = alternating_ms(*(lambda out=out: torch.autograd.grad(out, inputs, d_out, retain_graph=True) for out in outs),
                                  calls=10)  # fmt: skip
            bar(f"{name}: backward", b / a, least=1.0, unit=f"x ({b:.3f} -> {a:.3f} ms)")
            bar(f"{name}: time to the first gradient, share", our_first / their_first, most=0.1,
                unit=f"({our_first:.2f} of {their_first:.2f} s)")  # fmt: skip
        except Exception as problem:
            traceback.print_exc()
            BARS.append((name, f"failed: {problem}"[:90], "", "MISSED"))


def problems():
    """200 random problems on the GPU against plain formulas, and the course's attention."""
    from support import check_problem, random_problem
    from test_torch_course import test_flash_attention_saves_one_log_sum_exp_and_has_gradients as course

    wrong = 0
    for seed in range(200):
        try:
            check_problem(random_problem(seed, "cuda"), ridgeline.attention)
        except Exception as problem:
            wrong += 1
            print(f"  problem {seed}: {str(problem)[:300]}")
    bar("wrong or failed of 200 random problems", wrong, most=0)
    for is_causal in (False, True):
        course(is_causal, "cuda")
    note("the course's attention on CUDA, causal and not", "passes")


def tests():
    """The GPU cases of tests/python that are no problems: streams, captures, memory, gradcheck."""
    import test_torch_attention as cases

    names = ["test_work_goes_to_the_current_stream_and_tensors_of_two_devices_are_refused",
             "test_a_captured_call_is_replayed_and_one_that_is_not_compiled_is_refused", "test_memory_is_pytorchs_own"]  # fmt: skip
    for name in names:
        getattr(cases, name)()
        note(name, "passes")
    cases.test_gradcheck("cuda")
    note("gradcheck", "passes")


SECTIONS = {"tests": tests, "problems": problems, "cost": cost, "activate": activated, "compile": compiled,
            "score": score_functions}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(SECTIONS), help="sections, with commas between")
    names = parser.parse_args().only.split(",")
    if not torch.cuda.is_available():
        print("no GPU: torch.cuda.is_available() is false")
        return 2
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, ridgeline {ridgeline.__version__}")
    for name in names:
        print(f"\n{name}: {SECTIONS[name].__doc__}", flush=True)
        start = time.perf_counter()
        try:
            with contextlib.suppress(KeyboardInterrupt):
                SECTIONS[name]()
        except Exception as problem:
            traceback.print_exc()
            BARS.append((name, f"failed: {problem}"[:90], "", "MISSED"))
        print(f"  {time.perf_counter() - start:.0f} s")
    width = max(len(row[0]) for row in BARS)
    print()
    for row in BARS:
        print(f"{row[0]:<{width}}  {row[1]:<36} {row[2]:<9} {row[3]}")
    return 1 if any(row[3] == "MISSED" for row in BARS) else 0


if __name__ == "__main__":
    sys.exit(main())
