"""Attention by torch.compile in its own process: prints its samples, forward and backward, as a line of JSON."""
import argparse
import json
import math
import time

import torch


def attention(q, k, v):
    return torch.softmax(q @ k.transpose(-2, -1) * (1 / math.sqrt(q.shape[-1])), -1) @ v


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("batch", "length", "width", "threads", "warmups", "iterations"):
        parser.add_argument("--" + name, type=int, required=True)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(42)
    shape = (args.batch, args.length, args.width)
    q, k, v = (torch.randn(shape).requires_grad_() for _ in range(3))
    d_output = torch.randn(shape)
    run = torch.compile(attention, fullgraph=True, dynamic=False)
    samples = {"forward": [], "backward": []}
    compile_s = 0
    for turn in range(1 + args.warmups + args.iterations):
        start = time.perf_counter()
        output = run(q, k, v)
        middle = time.perf_counter()
        torch.autograd.grad(output, (q, k, v), d_output)
        end = time.perf_counter()
        del output
        if turn == 0:
            compile_s = end - start
        if turn > args.warmups:
            samples["forward"].append(1e3 * (middle - start))
            samples["backward"].append(1e3 * (end - middle))
    compile_s -= (min(samples["forward"]) + min(samples["backward"])) / 1e3
    print(json.dumps({"samples_ms": samples, "compile_s": compile_s, "torch": torch.__version__}))


if __name__ == "__main__":
    main()
