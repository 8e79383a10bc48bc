"""One form of PyTorch on one whole model, in its own process: prints a line of JSON per scenario.

  python3 -m gpu_sections.torch_step --size small --context 512 --precision mixed --form graph

Forms differ in attention (plain, or SDPA), in torch.compile's mode and in what captures the launch graph.
The loss is inside the compiled region and AdamW is the fused one in all of them.
"""
import argparse
import gc
import json
import time

import torch

from peers.torch_forms import FORMS, SCENARIOS
from peers.torch_implementations import Compiled
from peers.torch_lm import SIZES, VOCABULARY
from peers.torch_model import Workload, make_step


def captured(step, stream):
    """Captures the step as a CUDA graph, always on one stream: gradients belong to the one that first computed them."""
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()  # memory that only the warm-up needed does not count
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        result = step()

    def replay():
        graph.replay()
        return result
    return replay


def in_use():
    free, total = torch.cuda.mem_get_info()
    return total - free


class Clock:
    """Times a call that starts on an idle device, as ridgeline times a step."""

    def __init__(self, device):
        self.events = [torch.cuda.Event(enable_timing=True) for _ in range(2)] if device == "cuda" else None

    def __call__(self, work):
        if not self.events:
            begin = time.perf_counter()
            work()
            return 1e3 * (time.perf_counter() - begin)
        begin, end = self.events
        begin.record()
        work()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end)


def kernel_ms(step, steps=3):
    """Returns the GPU time per step, summed by CUPTI, and the number of kernels and copies."""
    from torch.profiler import ProfilerActivity, profile
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for _ in range(steps):
            step()
        torch.cuda.synchronize()
    events = [event for event in profiler.profiler.kineto_results.events()
              if event.device_type() == torch.autograd.DeviceType.CUDA and not event.is_user_annotation()]
    return sum(event.duration_ns() for event in events) / 1e6 / steps, len(events) / steps


def measure(args, form, scenario):
    on_gpu = args.device == "cuda"
    compiled = Compiled()
    compiled.start_over()
    gc.collect()
    if on_gpu:
        torch.zeros(1, device="cuda")  # creates the context before anything is counted
        torch.cuda.reset_peak_memory_stats()
        torch.cuda.empty_cache()
    before = in_use() if on_gpu else 0
    begin = time.perf_counter()
    workload = Workload(sizes=args.custom or SIZES[args.size], context=args.context, batch=args.batch,
                        vocabulary=args.vocabulary or VOCABULARY, precision=args.precision, scenario=scenario,
                        device=args.device)
    step, model = make_step(workload, form)
    made = time.perf_counter()
    stream = torch.cuda.Stream() if form.capture and on_gpu else None
    if on_gpu:
        torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        value = step()
    if on_gpu:
        torch.cuda.synchronize()
    first_s = time.perf_counter() - made
    if form.mode is not None:
        compiled.check(None)
    if stream:
        step = captured(step, stream)
    elif on_gpu:
        torch.cuda.empty_cache()
    clock, taken = Clock(args.device), []
    for _ in range(args.warmups):
        step()
    if on_gpu:
        torch.cuda.synchronize()
    ready_s = time.perf_counter() - begin
    processor_s = time.process_time()
    for _ in range(args.iterations):
        taken.append(clock(step))
    processor_s = time.process_time() - processor_s
    value = step()
    result = {"scenario": scenario, "samples_ms": taken, "first_run_s": first_s, "ready_s": ready_s,
              "parameters": sum(each.numel() for each in model.parameters()), "torch": torch.__version__}
    if scenario != "forward":
        result["loss"] = value.item()
    if on_gpu:
        result["driver_growth_bytes"] = in_use() - before
        result["allocator_peak_bytes"] = torch.cuda.max_memory_allocated()
    else:
        result["processor_ms"] = 1e3 * processor_s / args.iterations  # of all threads, per step
    if args.profile and on_gpu:
        result["kernel_ms"], result["kernels"] = kernel_ms(step)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=list(SIZES), default="small")
    parser.add_argument("--custom", type=lambda text: [int(part) for part in text.split(",")], default=None,
                        metavar="D,FF,LAYERS,HEADS", help="instead of a named size")
    parser.add_argument("--vocabulary", type=int, default=None)
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--precision", choices=["fp32", "mixed"], default="mixed")
    parser.add_argument("--form", choices=list(FORMS), required=True)
    parser.add_argument("--scenarios", type=lambda text: text.split(","), default=list(SCENARIOS))
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--warmups", type=int, default=5)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--profile", action="store_true", help="kernel time as well")
    args = parser.parse_args()
    torch.set_float32_matmul_precision("highest")  # fp32 must not use TF32
    if args.threads:
        torch.set_num_threads(args.threads)
    form = FORMS[args.form]
    for scenario in args.scenarios:
        if form.cast_ahead and scenario != "forward":
            continue
        try:
            result = measure(args, form, scenario)
        except torch.OutOfMemoryError as error:
            result = {"scenario": scenario, "error": f"out of memory: {str(error).splitlines()[0][:120]}"}
        except Exception as error:  # the other scenarios continue
            result = {"scenario": scenario, "error": f"{type(error).__name__}: {str(error)[:300]}"}
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
