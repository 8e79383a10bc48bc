"""A training step of TransformerLM in PyTorch, phase by phase, as a peer that ridgeline profiles."""
import contextlib
import dataclasses
import gc

import torch

from .process_memory import Growth
from .torch_forms import MODELS
from .torch_implementations import Compiled
from .torch_library import TorchProblem, refusing
from .torch_lm import TransformerLM


@dataclasses.dataclass
class Workload:
    sizes: tuple[int, ...]  # width, feed-forward width, layers, heads
    context: int
    batch: int
    vocabulary: int
    precision: str  # fp32, tf32, mixed
    scenario: str
    device: str
    seed: int = 42
    max_norm: float = 0  # of gradients, to which they are clipped; 0: no clipping


def unmarked(_phase):
    return contextlib.nullcontext()


def build_model(workload, form):
    torch.manual_seed(workload.seed)
    with torch.device(workload.device):
        model = TransformerLM(*workload.sizes, context=workload.context, vocabulary=workload.vocabulary,
                              attention=form.attention)
        shape = (workload.batch, workload.context)
        tokens, targets = (torch.randint(workload.vocabulary, shape) for _ in range(2))
    model = model.to(workload.device)
    if form.cast_ahead:
        for layer in model.modules():
            if isinstance(layer, torch.nn.Linear):
                layer.to(torch.bfloat16)
    return model, tokens, targets


def make_step(workload, form):
    """Returns a function that runs one step, each phase inside of phase(NAME), and the model, which must outlive it."""
    model, tokens, targets = build_model(workload, form)
    kind = torch.device(workload.device).type
    mixed = torch.autocast(kind, torch.bfloat16, enabled=workload.precision == "mixed",
                           cache_enabled=not form.capture or form.mode is None)

    def forward():
        with mixed:
            return model(tokens)

    def loss():
        with mixed:
            return model.loss(tokens, targets)

    def compiled(function):
        return function if form.mode is None else torch.compile(function, mode=form.mode, fullgraph=True,
                                                                dynamic=False)

    def begin():
        if form.mode == "reduce-overhead":
            torch.compiler.cudagraph_mark_step_begin()

    if workload.scenario == "forward":
        run = compiled(forward)

        def step(phase=unmarked):
            begin()
            with torch.no_grad(), phase("forward"):
                return run()
        return step, model

    run = compiled(loss)
    optimizer = None
    if workload.scenario == "full-step":
        optimizer = torch.optim.AdamW(model.parameters(), fused=True, capturable=kind == "cuda")

    def step(phase=unmarked):
        model.zero_grad(set_to_none=True)
        begin()
        with phase("forward"):
            value = run()
            result = value.detach()
        with phase("backward"):
            value.backward()
        if optimizer:
            with phase("optimizer"):
                if workload.max_norm:
                    torch.nn.utils.clip_grad_norm_(model.parameters(), workload.max_norm)
                optimizer.step()
        return result
    return step, model


class Problem(TorchProblem):
    """One model on one device."""
    steps_until_steady = 3  # CUDA graphs of torch.compile run first, then are recorded, then replayed

    def __init__(self, request):
        super().__init__(request)
        self.form = MODELS[request["implementation"]]
        model = request["model"]
        workload = Workload(sizes=(model["d_model"], model["d_ff"], model["layers"], model["heads"]),
                            context=model["context_length"], batch=model["batch_size"],
                            vocabulary=model["vocabulary"], precision=request["precision"],
                            scenario=request["scenario"], device=request["device"], seed=request["seed"],
                            max_norm=request["max_norm"])
        self.compiled = Compiled()
        with refusing():
            self.compiled.start_over()
            self.step, self.model = make_step(workload, self.form)

    def meet_every_kernel(self):
        with refusing():
            for _ in range(self.steps_until_steady):
                self.step()
            self.wait()
            self.ran = "eager operations" if self.form.mode is None else self.compiled.check(None)

    def run_watched(self, _results):
        with refusing():
            if self.has_queue:
                torch.cuda.reset_peak_memory_stats()
            growth = None if self.has_queue else Growth(sum(each.nbytes for each in self.model.parameters()))
            self.step()
            self.wait()
            return {"peak_bytes": torch.cuda.max_memory_allocated()} if self.has_queue else growth.facts()

    def facts(self):
        return self.shared_facts() | {"ran": self.ran, "attention": self.form.attention,
                                      "parameters": sum(each.numel() for each in self.model.parameters())}

    def check_after_samples(self):
        if self.form.mode is not None:
            self.compiled.check_after_samples()

    def drop(self):
        self.step = self.model = None
        if self.form.mode is not None:
            self.compiled.start_over()  # its recorded graphs hold memory
        gc.collect()
        self.empty()
