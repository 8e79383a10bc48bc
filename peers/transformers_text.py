"""Gemma-3 of transformers, decoding greedily: eager, compiled with a static cache, and the latter in a CUDA graph."""
import gc
import time

from .process_memory import Growth
from .refusal import Refusal, missing
from .torch_library import DTYPES, TorchProblem, refusing

try:
    import torch
    import transformers
except ImportError as problem:
    raise missing("transformers", problem) from problem

STEPS_PER_WAIT = 8  # on a GPU: the host reads tokens in groups of this size, as ridgeline does


class Problem(TorchProblem):
    def __init__(self, request):
        super().__init__(request)
        self.form = request["implementation"].removeprefix("transformers.")  # eager, static.compile, graph
        self.batch, self.new_tokens = request["batch_size"], request["new_tokens"]
        with refusing():
            self.model = transformers.Gemma3ForCausalLM.from_pretrained(
                request["folder"], dtype=DTYPES[request["dtype"]], local_files_only=True).to(self.device).eval()
            config = self.model.config
            window, last = config.sliding_window, len(request["prompt"]) + self.new_tokens
            if self.form == "graph" and len(request["prompt"]) <= window < last:
                raise Refusal("unsupported", f"a graph of a step holds on one side of the window of {window} tokens, and "
                              f"the text ends at {last}", "give fewer --max-new-tokens or a longer prompt")
            self.cache = None if self.form == "eager" else transformers.StaticCache(
                config=config, max_cache_len=request["capacity"])
            self.compiled_step = self.step if self.form == "eager" else torch.compile(self.step)
        self.graph = None
        self.ids = torch.tensor([request["prompt"]] * self.batch)

    def step(self, token, cache):
        logits = self.model(token, past_key_values=cache, use_cache=True, logits_to_keep=1).logits
        return logits[:, -1:].argmax(-1)

    @torch.no_grad()
    def prefill(self):
        """Computes the first new token of each text; a static cache keeps its memory from run to run."""
        if self.form == "eager":
            self.cache = transformers.DynamicCache(config=self.model.config)
        else:
            self.cache.reset()
        self.token = self.step(self.ids.to(self.device), self.cache)

    @torch.no_grad()
    def advance(self):
        if self.graph is not None:
            self.graph.replay()
        else:
            self.token = self.compiled_step(self.token, self.cache).clone()

    def text(self):
        """Returns all new tokens of the first text, and the milliseconds of every step."""
        self.prefill()
        if self.graph is not None:
            self.held.copy_(self.token)
            self.token = self.held
        self.wait()
        tokens, step_ms = [self.token.clone()], []
        while len(tokens) < self.new_tokens:
            begin = time.perf_counter()
            count = min(STEPS_PER_WAIT if self.has_queue else 1, self.new_tokens - len(tokens))
            for _ in range(count):
                self.advance()
                tokens.append(self.token.clone())
            tokens[-1].tolist()  # waits until the host has them
            step_ms.append(1e3 * (time.perf_counter() - begin) / count)
        return [int(each[0, 0]) for each in tokens], step_ms

    @torch.no_grad()
    def capture(self):
        """Captures the compiled step, and the copy of its token to the next step's input, as one graph."""
        self.prefill()
        self.held = self.token.clone()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.held.copy_(self.compiled_step(self.held, self.cache))
        self.wait()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self.held.copy_(self.compiled_step(self.held, self.cache))

    def meet_every_kernel(self):
        with refusing():
            self.text()  # the second text may recompile, with a symbolic length
            if self.form != "eager":
                self.text()
            if self.form == "graph" and self.has_queue:
                self.capture()
                self.text()

    def run_watched(self, _results):
        with refusing():
            if self.has_queue:
                torch.cuda.reset_peak_memory_stats()
            growth = None if self.has_queue else Growth(sum(each.nbytes for each in self.model.parameters()))
            self.text()
            return {"peak_bytes": torch.cuda.max_memory_allocated()} if self.has_queue else growth.facts()

    def sample(self):
        """Returns the time of the prompt, and the time until the first new token is on the host."""
        begin = time.perf_counter()
        self.prefill()
        self.wait()
        prefill_ms = 1e3 * (time.perf_counter() - begin)
        self.token.tolist()
        return [prefill_ms, 1e3 * (time.perf_counter() - begin)]

    def facts(self):
        shared = self.shared_facts()
        ran = {"eager": "eager operations", "static.compile": "a compiled step over a static cache",
               "graph": "a compiled step in a CUDA graph" if self.graph else "a compiled step over a static cache"}
        return shared | {"ran": ran[self.form], "clock": "host", "attention": self.model.config._attn_implementation,
                         "versions": shared["versions"] | {"transformers": transformers.__version__}}

    def check_after_samples(self):
        pass

    def drop(self):
        self.model = self.cache = self.graph = self.compiled_step = self.token = self.held = None
        torch.compiler.reset()
        gc.collect()
        self.empty()
