"""A peer of the standard library alone: attention in plain Python, profiles that are made up, and every way in which a
worker can fail."""
import array
import json
import math
import os
import sys
import time

BEHAVIOURS = {  # by the name of a real implementation
    "torch.naive": "right",
    "torch.compile": "recompiles",
    "torch.sdpa": "wrong",
    "torch.sdpa.flash": "refuses",
    "torch.sdpa.cudnn": "dies",
    "torch.sdpa.efficient": "oom",
    "torch.sdpa.math": "babbles",
    "torch.flex": "odd times",
    "jax.naive": "leaves",
    "jax.xla": "interrupted",
    "xformers": "as told",
}

ODD_ANSWERS = {  # by $FAKE_ANSWER: to the first request of a row that answers as told
    "deep facts": lambda: '{"facts": ' + '{"a": ' * 200000 + "1" + "}" * 200001,
    "many facts": lambda: json.dumps({"facts": {"text": "x" * 100000}}),
    "facts of text": lambda: '{"facts": "fast"}',
    "endless line": lambda: "x" * (20 << 20),
    "leave of text": lambda: '{"leave": "soon"}',
    "failed of a number": lambda: '{"failed": 3}',
    "error of a list": lambda: '{"failed": "oom", "error": []}',
    "memory of a list": lambda: '{"memory": [1]}',
    "negative memory": lambda: '{"memory": {"peak_bytes": -5}}',
    "too much memory": lambda: '{"memory": {"peak_bytes": 18446744073709551615}}',
    "memory of text": lambda: '{"memory": {"peak_bytes": "much"}}',
    "first run of text": lambda: '{"first_run_s": "short"}',
    "not Unicode": lambda: '{"facts": {"a": "\udcff"}}',
    "a list": lambda: "[1, 2]",
    "nothing": lambda: "",
}


# One step of a GPU: a product and a softmax of forward, started one by one; a graph of backward; a copy of no phase.
STEP = {"begin_ns": 0, "end_ns": 10_000_000, "names": ["nvjet_tst_128x64", "cunn_SoftMaxForward", "Memcpy HtoD",
                                                       "cudaLaunchKernel", "cudaGraphLaunch"],
        "calls": [[3, 0, 1_000_000], [3, 1_000_000, 500_000], [4, 1_500_000, 500_000]],
        "work": [[0, 0, 0, 1_000_000, 2_000_000, 0], [1, 0, 0, 3_000_000, 1_000_000, 1],
                 [0, 0, 1, 5_000_000, 1_000_000, 2], [0, 0, 1, 6_000_000, 2_000_000, 2],
                 [2, 1, -1, 8_000_000, 1_000_000, -1]]}

ODD_PROFILES = {  # by $FAKE_ANSWER: what takes the place of the right members
    "no profile": {"profile": None},
    "negative time": {"step": {"work": [[0, 0, 0, 0, -1, -1]]}},
}


def profile_answer(request, state):
    if request["do"] == "open":
        state["odd"] = {} if request["implementation"] != "torch.sdpa" else ODD_PROFILES[os.environ["FAKE_ANSWER"]]
        if request["implementation"] == "torch.compile":
            return {"failed": "invalid", "error": "it recompiled"}
        if request["trace"]:
            with open(request["trace"], "w", encoding="ascii") as file:
                file.write("{}")
        answer = {"facts": {"request": request}, "first_run_s": 0.5, "memory": {"peak_bytes": 4096},
                  "profile": {"source": "made up", "steps": request["schedule"]["active"], "untraced_step_ms": 8.0}}
        return answer | {key: value for key, value in state["odd"].items() if key == "profile"}
    if request["do"] == "step":
        return {"step": STEP | state["odd"].get("step", {})}
    return {}


def text_answer(request, state):
    """Texts of [7, 7, ...]; by $FAKE_ANSWER something else."""
    if request["do"] == "open":
        if request["implementation"] == "transformers.graph":
            return {"failed": "unsupported", "error": "this library is not there", "next_step": "pip install it"}
        for file in ("config.json", "model.safetensors"):
            if not os.path.exists(os.path.join(request["folder"], file)):
                return {"failed": "invalid", "error": f"there is no {file}"}
        state["request"] = request
        return {"facts": {"prompt": request["prompt"], "batch_size": request["batch_size"]}, "first_run_s": 0.5}
    if request["do"] == "sample":
        return {"samples": [[2.0, 3.0]] * request["count"]}
    if request["do"] == "decode":
        count = state["request"]["new_tokens"]
        tokens = ["seven"] if state["request"]["implementation"] == "llama.cpp" else [7] * count
        return {"tokens": tokens, "step_ms": [4.0] * (count - 1)}
    return {}


def load(request, name):
    values = array.array("f")
    with open(os.path.join(request["folder"], name), "rb") as file:
        values.frombytes(file.read())
    return values


def rows_of(values, start, length, width):
    return [values[start + i * width:start + (i + 1) * width] for i in range(length)]


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def head_results(q, k, v, d_out, causal, scale):
    length, width = len(q), len(q[0])
    out = []
    d_q, d_k, d_v = ([[0.0] * width for _ in range(length)] for _ in range(3))
    for i in range(length):
        keys = range(i + 1 if causal else length)
        scores = [dot(q[i], k[j]) * scale for j in keys]
        top = max(scores)
        weights = [math.exp(score - top) for score in scores]
        total = sum(weights)
        weights = [weight / total for weight in weights]
        out.append([sum(weights[j] * v[j][c] for j in keys) for c in range(width)])
        if d_out is None:
            continue
        d_weights = [dot(d_out[i], v[j]) for j in keys]
        mean = dot(weights, d_weights)
        for j in keys:
            d_score = weights[j] * (d_weights[j] - mean) * scale
            for c in range(width):
                d_q[i][c] += d_score * k[j][c]
                d_k[j][c] += d_score * q[i][c]
                d_v[j][c] += weights[j] * d_out[i][c]
    return out, d_q, d_k, d_v


def write_results(request, error):
    batch, heads, length, width = request["shape"]
    names = ["q", "k", "v"] + (["d_output"] if request["gradients"] else [])
    tensors = [load(request, name) for name in names]
    results = [array.array("f") for _ in range(4)]
    for head in range(batch * heads):
        parts = [rows_of(tensor, head * length * width, length, width) for tensor in tensors]
        d_out = parts[3] if request["gradients"] else None
        for result, rows in zip(results, head_results(*parts[:3], d_out, request["causal"], 1 / math.sqrt(width))):
            for row in rows:
                result.extend(row)
    results[0][0] += error
    for name, result in zip(("output", "d_q", "d_k", "d_v"), results if request["gradients"] else results[:1]):
        with open(os.path.join(request["folder"], name), "wb") as file:
            file.write(result.tobytes())


def is_wrong_now():
    """Always, or once where $FAKE_WRONG_ONCE names a file."""
    marker = os.environ.get("FAKE_WRONG_ONCE")
    if marker is None:
        return True
    is_first = not os.path.exists(marker)
    with open(marker, "w", encoding="ascii"):
        return is_first


def answer(request, state):
    if request["do"] == "open":
        behaviour = state["behaviour"] = BEHAVIOURS[request["implementation"]]
        state["times"] = [1.0, 2.0] if request["study"] == "attention" else (
            [0.25, 0.5] + ([0.75, 0.5] if request["gradients"] else []))
        if behaviour == "refuses":
            return {"failed": "unsupported", "error": "this library is not there", "next_step": "pip install it"}
        if behaviour == "oom":
            return {"failed": "oom", "error": "tried to allocate 2.00 GiB"}
        if behaviour == "dies":
            print("a last word", file=sys.stderr, flush=True)
            os._exit(7)
        if behaviour == "babbles":
            return None
        if behaviour == "interrupted":
            time.sleep(60)
        if request["results"]:
            write_results(request, 0.5 if behaviour == "wrong" and is_wrong_now() else 0.0)
        memory = {"process_peak_growth_bytes": 3 << 20} if behaviour == "leaves" else {"peak_bytes": 4096}
        return {"memory": memory, "first_run_s": 0.5,
                "facts": {"ran": behaviour, "process": os.getpid(), "device": request["device"]}}
    if request["do"] == "sample":
        times = ["soon"] if state["behaviour"] == "odd times" else state["times"]
        return {"samples": [times] * request["count"]}
    if state["behaviour"] == "recompiles":
        return {"failed": "invalid", "error": "it recompiled during the samples"}
    return {"leave": state["behaviour"] == "leaves"}


def main():
    state = {}
    for line in sys.stdin:
        if json.loads(line).get("implementation") == "xformers":
            text = ODD_ANSWERS[os.environ["FAKE_ANSWER"]]()
            sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape") + b"\n")
            sys.stdout.flush()
            continue
        if json.loads(line)["do"] == "open":
            state["answer"] = {"profile": profile_answer, "generate": text_answer}.get(json.loads(line)["study"], answer)
        result = state["answer"](json.loads(line), state)
        print("no JSON at all" if result is None else json.dumps(result), flush=True)


main()
