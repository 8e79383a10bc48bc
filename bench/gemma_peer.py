"""Times transformers' Gemma-3 on random weights: a prompt, and steps of decoding, each eager, compiled and in a CUDA graph.

  python bench/gemma_peer.py prefill --model 270m --tokens 4096
  python bench/gemma_peer.py decode --model 270m --batch 1 --tokens 128

Leaner than `generate --impl transformers.graph`: weights are drawn on the device, no file is written, and each form is
printed as soon as it is timed, so that a time limit cuts off only the slowest compilation. The peer gets every
advantage: a prompt keeps no cache and computes only the logits of its last token; steps use a static cache as long as
the text, without ring buffers, which a text shorter than the window does not need. With --lock FILE, timing holds that
lock, so that others can measure during a compilation.
"""
import argparse
import contextlib
import fcntl
import statistics
import time

import torch
import transformers

COMMON = dict(head_dim=256, query_pre_attn_scalar=256, rope_theta=1e6, rope_local_base_freq=1e4, vocab_size=262144,
              max_position_embeddings=32768, num_attention_heads=4, num_key_value_heads=1, sliding_window=512)
MODELS = {
    "270m": dict(COMMON, hidden_size=640, intermediate_size=2048, num_hidden_layers=18),
    "1b": dict(COMMON, hidden_size=1152, intermediate_size=6912, num_hidden_layers=26),
}
STEPS_PER_WAIT = 8  # the host waits for tokens in groups of this size, as ridgeline does
CAPTURE_WARMUPS = 3


def build(arguments):
    sizes = dict(MODELS[arguments.model])
    if arguments.layers:
        sizes["num_hidden_layers"] = arguments.layers
    if arguments.what == "decode":  # the same result for texts shorter than the window; one kind of cache compiles once
        sizes["layer_types"] = ["full_attention"] * sizes["num_hidden_layers"]
    if arguments.vocabulary:
        sizes["vocab_size"] = arguments.vocabulary
    torch.manual_seed(1)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(arguments.device):
        model = transformers.Gemma3ForCausalLM(transformers.Gemma3TextConfig(**sizes))
    torch.set_default_dtype(torch.float32)
    return model.eval()


class Bench:
    def __init__(self, arguments):
        self.arguments = arguments
        self.on_gpu = arguments.device == "cuda"
        self.model = build(arguments)

    def wait(self):
        if self.on_gpu:
            torch.cuda.synchronize()

    @contextlib.contextmanager
    def alone(self):
        if not self.arguments.lock:
            yield
            return
        with open(self.arguments.lock, "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def report(self, form, work, per, prepared_s):
        """Prints the median of samples of `per` runs each."""
        samples = []
        with self.alone():
            for _ in range(self.arguments.samples):
                self.wait()
                begin = time.perf_counter()
                for _ in range(per):
                    work()
                self.wait()
                samples.append(1e3 * (time.perf_counter() - begin) / per)
        text = self.arguments
        print(f"peer {text.what} {text.model} batch={text.batch} tokens={text.tokens} {form}: "
              f"{statistics.median(samples):.3f} ms (least {min(samples):.3f}, ready after {prepared_s:.1f} s)", flush=True)

    def graph_of(self, work):
        """Captures `work` as one CUDA graph."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(CAPTURE_WARMUPS):
                work()
        self.wait()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            work()
        return graph.replay

    def prepared(self, form, make, per=1):
        begin = time.perf_counter()
        try:
            work = make()
            work()
            work()
            self.wait()
        except Exception as problem:  # the other forms continue
            print(f"peer {self.arguments.what} {form}: {type(problem).__name__}: {str(problem).splitlines()[:1]}", flush=True)
            return None
        self.report(form, work, per, time.perf_counter() - begin)
        return work

    def prefill(self):
        ids = torch.randint(1, self.model.config.vocab_size, (self.arguments.batch, self.arguments.tokens),
                            device=self.arguments.device)

        def once(model):
            return lambda: model(ids, use_cache=False, logits_to_keep=1).logits[:, -1:].argmax(-1)
        self.prepared("eager", lambda: once(self.model))
        compiled = once(torch.compile(self.model, dynamic=False))
        work = self.prepared("compiled", lambda: compiled)
        if work and self.on_gpu:
            self.prepared("compiled, CUDA graph", lambda: self.graph_of(compiled))

    def decode(self):
        text = self.arguments
        ids = torch.randint(1, self.model.config.vocab_size, (text.batch, text.tokens), device=text.device)
        assert text.tokens + text.room <= self.model.config.sliding_window, "a text past the window needs its rings"
        cache = transformers.StaticCache(config=self.model.config, max_cache_len=text.tokens + text.room)
        token = torch.ones((text.batch, 1), dtype=torch.long, device=text.device)

        def step(model):
            def run():
                logits = model(token, past_key_values=cache, use_cache=True, logits_to_keep=1).logits
                token.copy_(logits[:, -1:].argmax(-1))
            return run

        def begun(run):
            cache.reset()
            self.model(ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
            return run
        steps = 1 if not self.on_gpu else STEPS_PER_WAIT
        self.prepared("eager, static cache", lambda: begun(step(self.model)), steps)
        compiled = step(torch.compile(self.model, dynamic=False))
        work = self.prepared("compiled, static cache", lambda: begun(compiled), steps)
        if work and self.on_gpu:
            self.prepared("compiled, CUDA graph", lambda: self.graph_of(begun(compiled)), steps)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["prefill", "decode"])
    parser.add_argument("--model", choices=MODELS, default="270m")
    parser.add_argument("--tokens", type=int, default=128, help="of the prompt")
    parser.add_argument("--room", type=int, default=384, help="tokens that the static cache has room for behind the prompt")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--samples", type=int, default=7)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--layers", type=int, help="fewer, to try the script")
    parser.add_argument("--vocabulary", type=int, help="less, to try the script")
    parser.add_argument("--lock", help="a file that is locked while something is timed")
    arguments = parser.parse_args()
    with torch.no_grad():
        getattr(Bench(arguments), arguments.what)()


if __name__ == "__main__":
    main()
