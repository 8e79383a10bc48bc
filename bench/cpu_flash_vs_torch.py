"""Times our CPU flash attention beside PyTorch's SDPA: same tensors, same threads, interleaved in one run.

  python bench/cpu_flash_vs_torch.py --library build/libflash_bench.so --threads 2

The library is bench/flash_bench.cc linked with ridgeline_core. PyTorch's backward includes no forward.
Every sample is a batch of calls after a warm-up call; implementations alternate; medians are printed, and
the ratio of the best samples beside them: where the two differ, something else was using the cores.
PyTorch 2.11 stops with an illegal instruction in bf16 on some virtual machines with AMX; setting
ONEDNN_MAX_CPU_ISA=AVX512_CORE_FP16 avoids it.
FLOP/s count 4*B*H*Sq*Sk*D for the forward and 2.5 times that for the backward, halved for causal.
"""
import argparse
import ctypes
import math
import statistics
import time

import torch
import torch.nn.functional as F


class Sizes(ctypes.Structure):
    _fields_ = [("dtype", ctypes.c_int32), ("causal", ctypes.c_int32), ("single_pass", ctypes.c_int32),
                ("unused", ctypes.c_int32)] + [
        (name, ctypes.c_int64) for name in ("batch", "heads", "key_heads", "queries", "keys", "head_dim")
    ] + [("scale", ctypes.c_float)]


DTYPES = {"fp32": (0, torch.float32), "bf16": (1, torch.bfloat16), "fp16": (2, torch.float16)}


def pointers(tensors):
    return (ctypes.c_void_p * len(tensors))(*[tensor.data_ptr() for tensor in tensors])


def cell(library, pool, args, dtype_name, length, head_dim):
    code, dtype = DTYPES[dtype_name]
    shape = (args.batch, args.heads, length, head_dim)
    torch.manual_seed(0)
    q, k, v, d_out = (torch.randn(shape).to(dtype) for _ in range(4))
    for tensor in (q, k, v):
        tensor.requires_grad_()
    out_torch = F.scaled_dot_product_attention(q, k, v, is_causal=args.causal)
    out, d_q, d_k, d_v = (torch.empty(shape, dtype=dtype) for _ in range(4))
    lse = torch.empty(shape[:3])
    sizes = Sizes(code, int(args.causal), 0, 0, args.batch, args.heads, args.heads, length, length, head_dim,
                  1 / math.sqrt(head_dim))
    single = Sizes.from_buffer_copy(sizes)
    single.single_pass = 1
    forward_tensors = pointers([q, k, v, out, lse])
    backward_tensors = pointers([q, k, v, out, lse, d_out, d_q, d_k, d_v])

    def torch_forward():
        with torch.no_grad():
            F.scaled_dot_product_attention(q, k, v, is_causal=args.causal)

    def torch_backward():
        torch.autograd.grad(out_torch, (q, k, v), d_out, retain_graph=True)

    def ours_forward():
        assert library.flash_bench_forward(pool, ctypes.byref(sizes), forward_tensors) == 0

    def ours_two_pass():
        assert library.flash_bench_backward(pool, ctypes.byref(sizes), backward_tensors) == 0

    def ours_single_pass():
        assert library.flash_bench_backward(pool, ctypes.byref(single), backward_tensors) == 0

    ours_forward()
    error = (out.float() - out_torch.float()).abs().max().item()
    grads = torch.autograd.grad(out_torch, (q, k, v), d_out, retain_graph=True)
    for backward in (ours_two_pass, ours_single_pass):
        backward()
        for mine, theirs in zip((d_q, d_k, d_v), grads):
            error = max(error, (mine.float() - theirs.float()).abs().max().item())

    functions = {"fwd": (torch_forward, ours_forward),
                 "bwd": (torch_backward, ours_two_pass, ours_single_pass)}
    flops = 4 * args.batch * args.heads * length * length * head_dim * (0.5 if args.causal else 1)
    results = []
    for phase, contenders in functions.items():
        if args.phase not in ("both", phase):
            continue
        samples = [[] for _ in contenders]
        for function in contenders:
            function()
        start = time.perf_counter()
        contenders[0]()
        calls = max(1, int(args.sample_ms / 1e3 / (time.perf_counter() - start)))
        for _ in range(args.rounds):
            for function, times in zip(contenders, samples):
                time.sleep(0.003)  # lets the other pool's threads stop spinning
                function()
                start = time.perf_counter()
                for _ in range(calls):
                    function()
                times.append((time.perf_counter() - start) / calls)
        medians = [statistics.median(times) for times in samples]
        work = flops * (1 if phase == "fwd" else 2.5)
        rate = " ".join(f"{m * 1e3:9.3f} ms {work / m / 1e9:4.0f} GF/s" for m in medians)
        ratios = " ".join(f"{medians[0] / m:5.2f}x" for m in medians[1:])
        best = [min(times) for times in samples]
        best_ratios = " ".join(f"{best[0] / b:5.2f}x" for b in best[1:])
        print(f"{dtype_name} {phase} S {length:5d} d {head_dim:3d} | {rate} | {ratios} | best {best_ratios} | "
              f"diff {error:.1e}", flush=True)
        results.append((phase, [medians[0] / m for m in medians[1:]]))
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--heads", type=int, default=1)
    parser.add_argument("--causal", action="store_true")
    parser.add_argument("--dtypes", default="fp32")
    parser.add_argument("--lengths", default="64,128,256,1024,4096")
    parser.add_argument("--head-dims", default="64,128")
    parser.add_argument("--phase", default="both", choices=("fwd", "bwd", "both"))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--sample-ms", type=float, default=20)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    library = ctypes.CDLL(args.library)
    library.flash_bench_open.restype = ctypes.c_void_p
    pool = ctypes.c_void_p(library.flash_bench_open(args.threads))
    print(f"PyTorch {torch.__version__}, {args.threads} threads, batch {args.batch}, heads {args.heads}"
          f"{', causal' if args.causal else ''}; columns: SDPA, ours (backward: two-pass, single-pass)")
    ratios = {}
    for dtype in args.dtypes.split(","):
        for length in args.lengths.split(","):
            for head_dim in args.head_dims.split(","):
                for phase, values in cell(library, pool, args, dtype, int(length), int(head_dim)):
                    ratios.setdefault((dtype, phase), []).append(values)
    for (dtype, phase), rows in ratios.items():
        means = [math.exp(statistics.fmean(math.log(v) for v in column)) for column in zip(*rows)]
        print(f"geometric mean {dtype} {phase}: " + " ".join(f"{m:.2f}x" for m in means))
    library.flash_bench_close(pool)


if __name__ == "__main__":
    main()
