"""User kernels: a correct one next to ours, and broken ones, each with its verdict, while other rows continue."""
import json
import pathlib
import subprocess
import tempfile

from .bars import Section, at_least, failed

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
EXAMPLES = ROOT / "examples"
SHAPE = "2,4,200,64"  # 200 is no multiple of any tile
LIMIT_S = 5
# file: (status, part of the reason)
BROKEN = {
    "wrong_values.cu": ("wrong", "output is off by"),
    "out_of_bounds.cu": ("wrong", "behind its output were changed"),
    "unwritten.cu": ("wrong", "output is off by nan"),
    "hangs.cu": ("invalid", "hangs: no answer within"),
    "faults.cu": ("invalid", "it faults"),
    "does_not_compile.cu": ("invalid", "does_not_compile.cu(9): error"),
}


def own_rows(bench, source, entry, *options):
    """Returns the exit code and the records of `ridgeline kernel --source`."""
    with tempfile.TemporaryDirectory(prefix="ridgeline-results-") as results:
        command = [str(bench.ridgeline.binary), "kernel", "--device", bench.ridgeline.device, "--results-dir", results,
                   "--source", str(source), "--entry", entry, "--time-limit", f"{LIMIT_S}s", *options]
        done = subprocess.run(command, env=bench.ridgeline.environment(), capture_output=True, text=True, timeout=300)
        file = pathlib.Path(results) / "kernel/kernel.jsonl"
        if not file.is_file():
            raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()[-800:]}")
        return done.returncode, [json.loads(line) for line in file.read_text().splitlines()]


def good_rows(bench):
    """Runs the example in every dtype and mode and in a few shapes, and counts its correct rows."""
    iterations = "20" if bench.quick else "100"
    _, records = own_rows(bench, EXAMPLES / "own_attention.cu", "own_attention", "--shape", SHAPE, "--shape",
                          "1,2,1,64", "--shape", "1,4,1024,128", "--dtype", "fp32,bf16,fp16", "--num-warmup", "5",
                          "--num-iterations", iterations, "--impl", "flash")
    mine = [record for record in records if record["implementation"] == "own_attention"]
    for record in mine:
        if record["status"] != "ok":
            print(f"   {record['workload']} {record['settings']['mode']}: {record['status']}: {record['error']}")
    fast = {(str(r["workload"]), r["settings"]["mode"]): r for r in records if r["implementation"] == "flash"}
    for record in mine:
        ours = fast[str(record["workload"]), record["settings"]["mode"]]
        if record["settings"]["mode"] == "hot" and record["status"] == ours["status"] == "ok":
            medians = [1e3 * each["series"]["forward"]["statistics"]["median_ms"] for each in (record, ours)]
            print(f"   {record['workload']['dtype']} S={record['workload']['seq_len']}: the example "
                  f"{medians[0]:.1f} us, flash {medians[1]:.1f} us")
    return sum(record["status"] == "ok" for record in mine), len(mine)


def broken_verdict(bench, file):
    """Returns an empty string if the kernel got its verdict and the other rows were measured."""
    status, reason = BROKEN[file]
    code, records = own_rows(bench, EXAMPLES / "broken_kernels" / file, "broken", "--shape", SHAPE, "--dtype", "fp32",
                             "--mode", "hot", "--impl", "flash", "--num-warmup", "2", "--num-iterations", "10")
    by_name = {record["implementation"]: record for record in records}
    mine, ours = by_name["broken"], by_name["flash"]
    print(f"   {file}: {mine['status']}: {mine['error'].strip()[:150]}")
    if mine["status"] != status or reason not in mine["error"]:
        return f"{mine['status']}: {mine['error']}"[:100]
    if ours["status"] != "ok":
        return f"flash beside it: {ours['status']}: {ours['error']}"[:100]
    return "" if code == 3 else f"exit code {code} instead of 3"


def run(bench):
    good, rows = good_rows(bench)
    bars = [at_least("own kernel: right rows of the example", good, rows, "{:.0f}")]
    problems = {file: broken_verdict(bench, file) for file in BROKEN}
    bars.append(at_least("own kernel: broken kernels with their verdict",
                         sum(not why for why in problems.values()), len(BROKEN), "{:.0f}"))
    bars += [failed(f"own kernel: {file}", why) for file, why in problems.items() if why]
    return Section(bars, problems)
