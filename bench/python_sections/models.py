"""Whole models: transformers' with activate() against their default, and a compiled small GPT, our op against SDPA."""

import time

import torch
import torch.nn.functional as F

import ridgeline
import ridgeline.torch

from .harness import Row, bar, median


VOCABULARY = 32000
WIDTH_OF_HEADS = 64


def _llama(bench):
    from transformers import LlamaConfig, LlamaForCausalLM

    width, layers = bench.size((1024, 8), (64, 2))
    return LlamaForCausalLM(LlamaConfig(hidden_size=width, intermediate_size=width * 11 // 4, num_hidden_layers=layers,
                                        num_attention_heads=16, num_key_value_heads=16, vocab_size=VOCABULARY,
                                        attn_implementation="sdpa"))  # fmt: skip


def _gpt2(bench):
    from transformers import GPT2Config, GPT2LMHeadModel

    width, layers = bench.size((1024, 8), (64, 2))
    return GPT2LMHeadModel(GPT2Config(n_embd=width, n_layer=layers, n_head=16, n_positions=2048, vocab_size=VOCABULARY,
                                      bos_token_id=0, eos_token_id=0, attn_pdrop=0.0, embd_pdrop=0.0, resid_pdrop=0.0,
                                      attn_implementation="sdpa"))  # fmt: skip


def _gpu_alone_ms(bench, run):
    """Returns the time of a forward in a CUDA graph, without the host's influence."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(2):
            run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return median([bench.sample_ms(graph.replay) for _ in range(9)])


def _host_ms(bench, run):
    """Returns the time until the call returns, with the GPU still working."""
    times = []
    for _ in range(5):
        bench.wait()
        start = time.perf_counter()
        run()
        times.append((time.perf_counter() - start) * 1e3)
    bench.wait()
    return median(times)


def _activated(bench, name):
    """Measures a model that calls scaled_dot_product_attention, unchanged and with activate(), twice each."""
    torch.manual_seed(0)
    with torch.device(bench.device):
        model = {"Llama": _llama, "GPT-2": _gpt2}[name](bench).to(torch.bfloat16).eval()
    ids = torch.randint(0, VOCABULARY, bench.size((4, 2048), (1, 64)), device=bench.device)
    parameters = list(model.parameters())

    def run():
        return model(ids, use_cache=False).logits

    def forward():
        with torch.no_grad():
            return run()

    def step():
        torch.autograd.grad(run().float().square().mean(), parameters)

    def measure():
        samples = bench.size(7, 1)
        for _ in range(2):
            forward(), step()
        return ([bench.sample_ms(forward) for _ in range(samples)], [bench.sample_ms(step) for _ in range(samples)],
                _host_ms(bench, forward), forward())  # fmt: skip

    default, ours = [], []
    for _ in range(bench.size(2, 1)):
        default.append(measure())
        with ridgeline.torch.activate():
            ours.append(measure())
    before, after = default[-1][3], ours[-1][3]
    share = ((after - before).float().norm() / before.float().norm()).item()
    yield bar(f"{name}: calls that came to our kernels", 0 if share == 0 else 1, least=1)  # equal: PyTorch's own ran
    yield Row(f"{name}: relative difference of outputs", f"{share:.1e}")
    for kind, at in (("forward", 0), ("forward and backward", 1)):
        theirs, mine = (median([x for each in runs for x in each[at]]) for runs in (default, ours))
        yield bar(f"{name}: {kind}, activate() against default", theirs / mine, least=1.0,
                  unit=f"x ({theirs:.2f} -> {mine:.2f} ms)")  # fmt: skip
    yield Row(f"{name}: forward, host alone", f"{default[-1][2]:.2f} -> {ours[-1][2]:.2f} ms")
    if bench.on_gpu:
        try:
            theirs = _gpu_alone_ms(bench, forward)
            with ridgeline.torch.activate():
                mine = _gpu_alone_ms(bench, forward)
            yield Row(f"{name}: forward, GPU alone (CUDA graph)", f"{theirs:.2f} -> {mine:.2f} ms")
        except RuntimeError as problem:  # the model does something that cannot be captured
            yield Row(f"{name}: forward, GPU alone (CUDA graph)", f"not captured: {problem}"[:80].replace("\n", " "))


def activated(bench):
    for name in ("Llama", "GPT-2"):
        yield from _activated(bench, name)


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


def _small_gpt(bench, attend):
    torch.manual_seed(0)
    width, layers = bench.size((768, 4), (64, 2))
    model = torch.nn.Sequential(*[Layer(width, width // WIDTH_OF_HEADS, attend) for _ in range(layers)])
    return model.to(bench.device).to(torch.bfloat16)


def compiled(bench):
    """Compares torch.compile of a small GPT with our op and with SDPA, by the same backend."""
    (x,) = bench.inputs(*bench.size((8, 2048, 768), (1, 32, 64)), count=1)
    models = [_small_gpt(bench, lambda q, k, v: ridgeline.attention(q, k, v, causal=True)),
              _small_gpt(bench, lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True))]  # fmt: skip
    yield bar("graph breaks", torch._dynamo.explain(models[0])(x).graph_break_count, most=0)
    torch._dynamo.reset()
    steps = []
    for model in models:
        fast = torch.compile(model, fullgraph=True, backend="inductor" if bench.on_gpu else "aot_eager")
        parameters = list(model.parameters())
        steps.append(lambda fast=fast, parameters=parameters: torch.autograd.grad(
            fast(x).float().square().mean(), parameters))  # fmt: skip
    ours, theirs = steps[0](), steps[1]()
    worst = max(((a - b).float().norm() / b.float().norm().clamp_min(1e-6)).item() for a, b in zip(ours, theirs))
    yield Row("compiled GPT: relative difference of gradients", f"{worst:.1e}")
    with bench.alone():
        ours, theirs = bench.in_turns_ms(*steps)
    yield bar("compiled GPT: step, ours against SDPA", theirs / ours, least=1.0, unit=f"x ({theirs:.2f} -> {ours:.2f} ms)")
