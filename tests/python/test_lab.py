"""The helpers under the names of lab courses: tables, latencies, plots."""

import math
import time
import types

import pytest

import ridgeline
from ridgeline.lab import (
    GEMMA_CONFIG,
    GPU_SPECS,
    benchmark_latency,
    count_cuda_kernels,
    gemma_config,
    get_ridge_point,
    plot_flash_attn_improvement,
    plot_gemm_torch_matmul_latency,
    plot_roofline,
)


def test_gpus_of_the_course_are_there_with_dense_peaks():
    for name in ("A6000", "A10", "A100", "H100", "H200", "4090"):
        spec = GPU_SPECS[name]
        assert {"fp16_tflops", "bf16_tflops", "fp32_tflops", "memory_bandwidth_tb_s", "memory_gb"} <= set(spec), name
        assert get_ridge_point(name) == pytest.approx(spec["fp16_tflops"] / spec["memory_bandwidth_tb_s"])
    assert GPU_SPECS["A100"]["fp32_tflops"] == 19.5 and GPU_SPECS["A100"]["name"] == "A100 SXM 80 GB"
    assert GPU_SPECS["A100 PCIe 40 GB"]["memory_gb"] == 40 and GPU_SPECS["h100-pcie"]["name"] == "H100 PCIe"
    assert 980 < GPU_SPECS["H100"]["bf16_tflops"] < 1000, "1979 would be with sparsity"
    assert "A100" in GPU_SPECS and "Z80" not in GPU_SPECS and 3 not in GPU_SPECS
    assert all(GPU_SPECS[name]["name"] == name for name in GPU_SPECS)


def test_the_tables_are_the_programs_own():
    rows = ridgeline.cost("gemm", shape="8,8,8", dtype="bf16", gpu="H100")
    assert rows[0]["ridge"] == pytest.approx(get_ridge_point("H100", "bf16"))


@pytest.mark.parametrize("arguments, part", [(("Z80",), "Z80"), (("T4", "bf16"), "T4 has no 'bf16'"), (("T4", 3), "no 3")])
def test_a_gpu_or_dtype_that_is_not_known_is_named(arguments, part):
    with pytest.raises(ValueError, match=part):
        get_ridge_point(*arguments)


def test_the_configuration_of_gemma_is_the_courses():
    sizes = ("hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads", "head_dim", "num_hidden_layers")
    assert [getattr(GEMMA_CONFIG, name) for name in sizes] == [640, 2048, 4, 1, 256, 18]
    assert gemma_config("1b").hidden_size == 1152
    with pytest.raises(ValueError, match="expected one of 270m"):
        gemma_config("7b")


def test_latency_is_a_mean_in_milliseconds():
    calls = []

    def nap(seconds, more=0):
        calls.append(1)
        time.sleep(seconds + more)

    assert benchmark_latency(nap, 0.001, more=0.001, n_warmup=2, n_repeat=5) >= 2
    assert len(calls) == 7


def test_kernels_of_a_gpu_are_counted_by_kind():
    def event(name, kind="DeviceType.CUDA"):
        return types.SimpleNamespace(name=name, device_type=kind)

    names = ["sm90_xmma_gemm_bf16", "void cutlass::Kernel2", "softmax_warp_forward", "vectorized_elementwise_kernel",
             "vectorized_layer_norm_kernel", "Memcpy DtoD", "something"]  # fmt: skip
    profile = types.SimpleNamespace(events=lambda: [*map(event, names), event("aten::mm", "DeviceType.CPU")])
    assert count_cuda_kernels(profile) == {"gemm": 2, "softmax": 1, "layernorm": 1, "memory": 1, "elementwise": 1, "other": 1,
                                           "total": 7}  # fmt: skip
    with pytest.raises(TypeError, match="int is no profile"):
        count_cuda_kernels(3)


def test_a_roofline_has_its_ridge_and_its_operations(tmp_path):
    pytest.importorskip("matplotlib")
    figure = plot_roofline("A100", 19.5, 2.0, {"gemm": 341.3, "gemv": 1.0}, measured={"gemv": 1.5}, show=False,
                           save_path=tmp_path / "roof.png")  # fmt: skip
    lines = {line.get_label(): line for line in figure.axes[0].lines}
    assert list(lines["gemm"].get_ydata()) == [19.5] and list(lines["gemv"].get_ydata()) == [1.5]
    assert any("ridge point 9.75" in label for label in lines)
    roof = lines["roof"]
    assert all(y == pytest.approx(min(19.5, 2.0 * x)) for x, y in zip(roof.get_xdata(), roof.get_ydata()))
    assert (tmp_path / "roof.png").stat().st_size > 1000


def test_the_other_plots_hold_what_they_were_given():
    pytest.importorskip("matplotlib")
    figure = plot_gemm_torch_matmul_latency([64, 128], [2.0, 9.0], [1.0, 3.0], show=False)
    assert [list(line.get_ydata()) for line in figure.axes[0].lines] == [[2, 9], [1, 3]]
    rows = [{"seq_len": n, "sdpa_ms": n, "flash_ms": n / 2, "sdpa_mem_gb": n * n, "flash_mem_gb": n} for n in (1, 2)]
    figure = plot_flash_attn_improvement(rows, show=False)
    assert [bar.get_height() for bar in figure.axes[0].patches] == [1, 2, 0.5, 1]
    pandas = pytest.importorskip("pandas")
    figure = plot_flash_attn_improvement(pandas.DataFrame(rows), show=False)
    assert [bar.get_height() for bar in figure.axes[1].patches] == [1, 4, 1, 2]


@pytest.mark.parametrize(
    "call, part",
    [
        (lambda: plot_roofline("A100", 0, 2), "0 TFLOP/s"),
        (lambda: plot_roofline("A100", 1, 2, {"x": -1}), "x has an intensity of -1"),
        (lambda: plot_roofline("A100", 1, 2, {"x": math.nan}), "x has an intensity of nan"),
        (lambda: plot_roofline("A100", 1, 2, {}, measured={"y": 1}), "y has no intensity"),
        (lambda: plot_gemm_torch_matmul_latency([1], [1, 2], [1]), "1 sizes, 2 and 1 latencies"),
        (lambda: plot_flash_attn_improvement([]), "no column 'seq_len': there is no rows"),
        (lambda: plot_flash_attn_improvement([{"seq_len": 1}]), "no column 'sdpa_ms'"),
    ],
)
def test_plots_refuse_what_they_cannot_draw(call, part):
    with pytest.raises(ValueError, match=part):
        call()
