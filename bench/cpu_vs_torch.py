"""Times attention of ridgeline against PyTorch on this CPU: same sizes, same threads, alternating in one run.

  python bench/cpu_vs_torch.py naive                     our naive against PyTorch eager, the study's grid
  python bench/cpu_vs_torch.py flash --dtype fp32,bf16   our flash against scaled_dot_product_attention

Needs PyTorch and a built ./lab. Each round runs both, in the order A B, B A, ...; a cell is the median over all
samples of all rounds. On both sides forward keeps what backward needs, and backward includes no forward.
A ratio above 1 means that ridgeline is faster.
"""
import argparse
import json
import math
import pathlib
import statistics
import subprocess
import tempfile
import time

import torch
import torch.nn.functional as F

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
BINARY = pathlib.Path(__file__).resolve().parent.parent / "build/release/ridgeline"


def eager(q, k, v):
    return torch.softmax(q @ k.transpose(-2, -1) * (1 / math.sqrt(q.shape[-1])), -1) @ v


def sdpa(q, k, v):
    return F.scaled_dot_product_attention(q.unsqueeze(1), k.unsqueeze(1), v.unsqueeze(1)).squeeze(1)


def torch_samples(attention, args, dtype, seq_len, head_dim, iterations):
    shape = (args.batch_size, seq_len, head_dim)
    q, k, v = (torch.randn(shape).to(DTYPES[dtype]).requires_grad_() for _ in range(3))
    d_output = torch.randn(shape).to(DTYPES[dtype])
    forward, backward = [], []
    for i in range(args.warmups + iterations):
        q.grad = k.grad = v.grad = None
        start = time.perf_counter()
        output = attention(q, k, v)
        middle = time.perf_counter()
        output.backward(d_output)
        end = time.perf_counter()
        del output
        if i >= args.warmups:
            forward.append((middle - start) * 1e3)
            backward.append((end - middle) * 1e3)
    return forward, backward


def our_samples(args, dtype, seq_len, head_dim, iterations):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([BINARY, "attention", "--impl", args.implementation, "--threads", str(args.threads),
                        "--batch-size", str(args.batch_size), "--seq-len", str(seq_len), "--d-model", str(head_dim),
                        "--dtype", dtype, "--num-warmup", str(args.warmups), "--num-iterations", str(iterations),
                        "--backward", args.backward, "--no-verify", "--results-dir", folder],
                       check=True, stdout=subprocess.DEVNULL)
        record = json.loads((pathlib.Path(folder) / "attention/attention.jsonl").read_text())
    series = {name: entry["samples_ms"] for name, entry in record["series"].items()}
    return series["forward"], series["backward"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("implementation", choices=["naive", "flash"])
    numbers = lambda text: [int(part) for part in text.split(",")]
    parser.add_argument("--seq-len", type=numbers, default=None)
    parser.add_argument("--d-model", type=numbers, default=[64, 128])
    parser.add_argument("--dtype", type=lambda text: text.split(","), default=["fp32"])
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--backward", default="single-pass")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--warmups", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    lengths = args.seq_len or ([256, 1024, 4096] if args.implementation == "naive" else [64, 128, 256, 1024, 4096])
    attention = eager if args.implementation == "naive" else sdpa

    print(f"torch {torch.__version__}, {args.threads} threads, batch {args.batch_size}; median ms and ratio torch / ours")
    ratios = {"forward": [], "backward": []}
    for dtype in args.dtype:
        for seq_len in lengths:
            for head_dim in args.d_model:
                iterations = max(3, min(200, 4_000_000 // (seq_len * seq_len)))
                samples = {"torch": ([], []), "ours": ([], [])}
                for round_number in range(args.rounds):
                    for who in ("torch", "ours") if round_number % 2 == 0 else ("ours", "torch"):
                        got = (torch_samples(attention, args, dtype, seq_len, head_dim, iterations) if who == "torch"
                               else our_samples(args, dtype, seq_len, head_dim, iterations))
                        for phase in (0, 1):
                            samples[who][phase].extend(got[phase])
                line = f"{dtype} S={seq_len:<6} d={head_dim:<4}"
                for phase, name in enumerate(("forward", "backward")):
                    theirs, ours = (statistics.median(samples[who][phase]) for who in ("torch", "ours"))
                    ratios[name].append(theirs / ours)
                    line += f"  {name} {theirs:9.3f} / {ours:9.3f} = {theirs / ours:5.2f}x"
                print(line, flush=True)
    for name, values in ratios.items():
        print(f"{name}: geometric mean {statistics.geometric_mean(values):.2f}x, worst cell {min(values):.2f}x")


if __name__ == "__main__":
    main()
