"""Times all-reduce by ridgeline beside the same library without it: same sizes and ranks, alternating in one run.

  python bench/comm_vs_peers.py gloo                  our Gloo against torch.distributed's Gloo
  python bench/comm_vs_peers.py openmpi               our Open MPI against a plain loop of MPI_Allreduce (mpi_loop.c)
  python bench/comm_vs_peers.py mpich --ranks 2

Needs a built ./lab with the plugin; PyTorch for the first, mpicc.openmpi or mpicc.mpich for the others. Each round runs
both, in the order A B, B A, ...; a sample is a barrier and one all-reduce in place in fp32, by the slowest rank; a cell is
the median over all samples of all rounds. A ratio above 1 means that ridgeline is faster; "fastest" is that of the fastest
samples, which other work on the machine disturbs least, and "rounds" the range of the ratios of single rounds.
"""
import argparse
import json
import math
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve()
BINARY = HERE.parent.parent / "build/release/ridgeline"
MIB = 1 << 20
LAUNCH = {"openmpi": ["mpirun.openmpi", "--oversubscribe", "--allow-run-as-root"], "mpich": ["mpiexec.hydra"]}


def our_samples(args, ranks):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([BINARY, "comm", "--backend", args.backend, "--ranks", str(ranks), "--size",
                        ",".join(str(size * MIB) for size in args.size), "--no-verify", "-w", str(args.warmups),
                        "-r", str(args.samples), "--results-dir", folder], check=True, stdout=subprocess.DEVNULL)
        records = [json.loads(line) for line in (pathlib.Path(folder) / "comm/comm.jsonl").open()]
    return {record["workload"]["bytes"]: record["series"]["slowest_rank"]["samples_ms"] for record in records}


def torch_rank(args):
    """One rank of torch.distributed, started by torch_samples."""
    import torch
    import torch.distributed as dist
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    found = {}
    for size in args.size:
        data = torch.zeros(size * MIB // 4)
        samples = []
        warm_since, warmups, more = time.perf_counter(), 0, torch.ones(1)
        while more.item():  # as many as ridgeline takes: 50 ms at least
            dist.all_reduce(data)
            warmups += 1
            more[0] = warmups < args.warmups or time.perf_counter() - warm_since < 0.05
            dist.broadcast(more, 0)
        for _ in range(args.samples):
            dist.barrier()
            began = time.perf_counter()
            dist.all_reduce(data)
            slowest = torch.tensor([1e3 * (time.perf_counter() - began)], dtype=torch.float64)
            dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
            samples.append(slowest.item())
        found[size * MIB] = samples
    if dist.get_rank() == 0:
        print(json.dumps(found), flush=True)
    dist.destroy_process_group()


def torch_samples(args, ranks):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [sys.executable, HERE, args.backend, "--torch-rank", "--samples", str(args.samples), "--warmups",
             str(args.warmups), "--size", *map(str, args.size)]
    children = []
    for rank in range(ranks):
        variables = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1",
                         MASTER_PORT=str(port), OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo")
        children.append(subprocess.Popen(words, env=variables, stdout=subprocess.PIPE))
    answers = [child.communicate()[0] for child in children]
    return {int(size): samples for size, samples in json.loads(answers[0].splitlines()[-1]).items()}


def loop_samples(args, ranks, program):
    out = subprocess.run([*LAUNCH[args.backend], "-n", str(ranks), program, str(args.warmups), str(args.samples),
                          *(str(size * MIB) for size in args.size)], check=True, capture_output=True, text=True).stdout
    lines = [line.split() for line in out.splitlines()]
    return {int(line[0]): [float(ms) for ms in line[1:]] for line in lines}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("backend", choices=["gloo", "openmpi", "mpich"])
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--size", type=int, nargs="+", default=[1, 4, 16, 64, 256], help="in MiB")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--samples", type=int, default=10, help="of each round")
    parser.add_argument("--warmups", type=int, default=3)
    parser.add_argument("--torch-rank", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.torch_rank:
        return torch_rank(args)
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "mpi_loop"
        if args.backend == "gloo":
            def peer(ranks): return torch_samples(args, ranks)
        else:
            subprocess.run([f"mpicc.{args.backend}", "-O2", HERE.parent / "mpi_loop.c", "-o", program], check=True)
            def peer(ranks): return loop_samples(args, ranks, program)
        print(f"{args.backend}: all-reduce in place, fp32; ms are medians over {args.rounds} rounds of {args.samples} "
              f"samples of the slowest rank; {os.cpu_count()} processors")
        print(f"{'ranks':>5} {'MiB':>5} {'ours ms':>10} {'peer ms':>10} {'peer/ours':>9} {'fastest':>8} {'rounds':>13}")
        ratios, fastest = [], []
        for ranks in args.ranks:
            ours, theirs = [], []
            for turn in range(args.rounds):
                sides = [(ours, lambda: our_samples(args, ranks)), (theirs, lambda: peer(ranks))]
                for samples, run in sides if turn % 2 == 0 else reversed(sides):
                    samples.append(run())
            for size in args.size:
                bytes_ = size * MIB
                our_ms = statistics.median(ms for one in ours for ms in one[bytes_])
                peer_ms = statistics.median(ms for one in theirs for ms in one[bytes_])
                by_round = [statistics.median(b[bytes_]) / statistics.median(a[bytes_]) for a, b in zip(ours, theirs)]
                ratios.append(peer_ms / our_ms)
                fastest.append(min(ms for one in theirs for ms in one[bytes_]) / min(ms for one in ours for ms in one[bytes_]))
                print(f"{ranks:>5} {size:>5} {our_ms:>10.3f} {peer_ms:>10.3f} {ratios[-1]:>9.2f} {fastest[-1]:>8.2f} "
                      f"{min(by_round):>7.2f}-{max(by_round):<5.2f}", flush=True)
        print(f"geometric mean: {math.exp(statistics.mean(map(math.log, ratios))):.3f}, of the fastest samples "
              f"{math.exp(statistics.mean(map(math.log, fastest))):.3f}")


if __name__ == "__main__":
    main()
