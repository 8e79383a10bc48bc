"""Times all-reduce through ridgeline and through the same library alone: same sizes and ranks, alternating in one run.

  python bench/comm_vs_peers.py gloo                  our Gloo against torch.distributed's Gloo
  python bench/comm_vs_peers.py openmpi               our Open MPI against a plain loop of MPI_Allreduce (mpi_loop.c)
  python bench/comm_vs_peers.py mpich --ranks 2

Needs a built ./lab with the plugin; PyTorch for the first, mpicc of the same MPI for the others. A sample is a
barrier and one in-place all-reduce in fp32, timed on the slowest rank. Each round runs both sides, in the order A B,
B A, ... Gloo's ranks live through all rounds, and those of the idle side sleep; MPI's ranks would spin, so they start
anew for each round. A cell is the median over all samples of all rounds. A ratio above 1: ridgeline is faster;
"fastest" is the ratio of the fastest samples, which other work on the machine disturbs least, and "rounds" are the
quartiles of the ratios of single rounds.
"""
import argparse
import json
import math
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve()
BINARY = HERE.parent.parent / "build/release/ridgeline"
MIB = 1 << 20
WARMUPS = 2
# The first of these programs that is installed is used.
LAUNCHERS = {"openmpi": ["mpirun.openmpi", "mpirun"], "mpich": ["mpiexec.hydra", "mpiexec.mpich"]}
LAUNCHER_FLAGS = {"openmpi": ["--oversubscribe", "--allow-run-as-root"], "mpich": []}
COMPILERS = {"openmpi": ["mpicc.openmpi", "mpicc"], "mpich": ["mpicc.mpich", "mpicc"]}
FEWEST_ROUNDS = 4
MOST_ROUNDS = 40
SLOWER = 1 / 1.1  # a ratio below this counts as slower by more than a tenth


def first_of(programs):
    found = [program for program in programs if shutil.which(program)]
    if not found:
        sys.exit(f"none of {', '.join(programs)} is here")
    return found[0]


def our_environment(libraries):
    """Returns the environment of our ranks; `libraries` is a folder with the plugin's, if the host has none."""
    if not libraries:
        return {}
    return {"LD_LIBRARY_PATH": f"{libraries}:{os.environ.get('LD_LIBRARY_PATH', '')}"}


def request(backend, ranks, size, samples):
    """Returns the request line for rank 0 of `ridgeline study-rank` (src/studies/comm/rank.h)."""
    return json.dumps({"task": "comm", "collective": "all-reduce", "bytes": size, "ranks": ranks, "dtype": "fp32", "backend": backend,
                       "warmups": WARMUPS, "min_warmup_s": 0, "iterations": samples, "time_budget_s": 0,
                       "min_iterations": 1, "target_precision": 0.01, "verify": False})


class Group:
    """Ranks that live through all rounds; rank 0 reads requests line by line."""

    def __init__(self, ranks, words, variables):
        self.children = [subprocess.Popen(words, env=dict(os.environ, **variables(rank)), stdin=subprocess.PIPE,
                                          stdout=subprocess.PIPE, text=True) for rank in range(ranks)]

    def ask(self, line):
        rank_0 = self.children[0]
        rank_0.stdin.write(line + "\n")
        rank_0.stdin.flush()
        return json.loads(rank_0.stdout.readline())

    def close(self):
        for child in self.children:
            child.stdin.close()
        for child in self.children:
            child.wait(30)


class Ours(Group):
    def __init__(self, backend, ranks, folder, libraries):
        self.backend, self.ranks = backend, ranks
        super().__init__(ranks, [BINARY, "study-rank"], lambda rank: our_environment(libraries) | {
            "RIDGELINE_RANK": str(rank), "RIDGELINE_WORLD_SIZE": str(ranks), "RIDGELINE_ADDRESS": "127.0.0.1",
            "RIDGELINE_PORT_FILE": f"{folder}/port{ranks}", "RIDGELINE_RUN_ID": folder})

    def samples(self, sizes, samples):
        answers = [self.ask(request(self.backend, self.ranks, size, samples)) for size in sizes]
        return [answer["series"]["slowest_rank"]["samples_ms"] for answer in answers]


class Torch(Group):
    def __init__(self, ranks):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        super().__init__(ranks, [sys.executable, HERE, "gloo", "--torch-rank"], lambda rank: {
            "RANK": str(rank), "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
            "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"})

    def samples(self, sizes, samples):
        return [self.ask(f"{size} {samples}") for size in sizes]


def torch_rank():
    """One rank of torch.distributed; rank 0 reads sizes line by line."""
    import torch
    import torch.distributed as dist
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    while True:
        asked = torch.zeros(2, dtype=torch.int64)
        if dist.get_rank() == 0:
            line = sys.stdin.readline().split()
            asked[:] = torch.tensor([int(word) for word in line] or [0, 0])
        dist.broadcast(asked, 0)
        size, samples = asked.tolist()
        if size == 0:
            break
        data = torch.zeros(size // 4)
        found = []
        for sample in range(-WARMUPS, samples):
            dist.barrier()
            began = time.perf_counter()
            dist.all_reduce(data)
            slowest = torch.tensor([1e3 * (time.perf_counter() - began)], dtype=torch.float64)
            dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
            if sample >= 0:
                found.append(slowest.item())
        if dist.get_rank() == 0:
            print(json.dumps(found), flush=True)
    dist.destroy_process_group()


class Launched:
    """Ranks of MPI, started for each round: ours, or a plain loop."""

    def __init__(self, backend, ranks, program=None, libraries=None):
        self.backend, self.ranks, self.libraries = backend, ranks, libraries
        self.launch = [first_of(LAUNCHERS[backend]), *LAUNCHER_FLAGS[backend], "-n", str(ranks)]
        self.program = program

    def samples(self, sizes, samples):
        if self.program:
            words = [*self.launch, self.program, str(WARMUPS), str(samples), *map(str, sizes)]
            out = subprocess.run(words, check=True, capture_output=True, text=True).stdout
            return [[float(ms) for ms in line.split()[1:]] for line in out.splitlines()]
        lines = ""
        for size in sizes:
            asked = json.loads(request(self.backend, self.ranks, size, samples))
            asked["min_warmup_s"] = 0.05  # as in mpi_loop.c
            lines += json.dumps(asked) + "\n"
        out = subprocess.run([*self.launch, BINARY, "study-rank"], input=lines, check=True, capture_output=True, text=True,
                             env=os.environ | our_environment(self.libraries)).stdout
        answers = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
        return [answer["series"]["slowest_rank"]["samples_ms"] for answer in answers]

    def close(self):
        pass


def geometric_mean(values):
    return math.exp(statistics.mean(map(math.log, values)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("backend", choices=["gloo", "openmpi", "mpich"])
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--size", type=int, nargs="+", default=[1, 4, 16, 64, 256], help="in MiB")
    parser.add_argument("--seconds", type=float, default=12, help="of a size, within 4 to 40 rounds")
    parser.add_argument("--samples", type=int, default=6, help="of each round")
    parser.add_argument("--libraries", help="a folder with libraries of our plugin that this host has not")
    parser.add_argument("--torch-rank", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.torch_rank:
        return torch_rank()
    print(f"{args.backend}: all-reduce in place, fp32; medians over all samples of the slowest rank; "
          f"{len(os.sched_getaffinity(0))} processors")
    print(f"{'ranks':>5} {'MiB':>5} {'ours ms':>10} {'peer ms':>10} {'peer/ours':>9} {'fastest':>8} {'rounds':>16}")
    ratios, fastest = [], []
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "mpi_loop"
        if args.backend != "gloo":
            subprocess.run([first_of(COMPILERS[args.backend]), "-O2", HERE.parent / "mpi_loop.c", "-o", program], check=True)
        for ranks in args.ranks:
            if args.backend == "gloo":
                sides = [Ours(args.backend, ranks, folder, args.libraries), Torch(ranks)]
                turns = [[size] for size in args.size]
            else:  # one launch of the ranks runs all sizes
                sides = [Launched(args.backend, ranks, libraries=args.libraries), Launched(args.backend, ranks, program)]
                turns = [args.size]
            for sizes in turns:
                rounds = []
                began = time.monotonic()
                most_s = args.seconds * len(sizes)
                while len(rounds) < FEWEST_ROUNDS or (len(rounds) < MOST_ROUNDS and time.monotonic() - began < most_s):
                    found = [None, None]
                    for side in (0, 1) if len(rounds) % 2 == 0 else (1, 0):
                        found[side] = sides[side].samples([size * MIB for size in sizes], args.samples)
                    rounds.append(found)
                for at, size in enumerate(sizes):
                    ours, peers = ([ms for found in rounds for ms in found[side][at]] for side in (0, 1))
                    by_round = [statistics.median(peer[at]) / statistics.median(our[at]) for our, peer in rounds]
                    low, _, high = statistics.quantiles(by_round, n=4)
                    our_ms, peer_ms = statistics.median(ours), statistics.median(peers)
                    ratios.append(peer_ms / our_ms)
                    fastest.append(min(peers) / min(ours))
                    print(f"{ranks:>5} {size:>5} {our_ms:>10.3f} {peer_ms:>10.3f} {ratios[-1]:>9.2f} {fastest[-1]:>8.2f} "
                          f"{low:>5.2f}-{high:<5.2f} of {len(rounds)}{' SLOWER' if ratios[-1] < SLOWER else ''}", flush=True)
            for side in sides:
                side.close()
    print(f"geometric mean: {geometric_mean(ratios):.3f}, of the fastest samples {geometric_mean(fastest):.3f}; "
          f"{sum(ratio < SLOWER for ratio in ratios)} of {len(ratios)} slower by more than a tenth")


if __name__ == "__main__":
    main()
