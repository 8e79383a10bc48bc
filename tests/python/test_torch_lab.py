"""Parts of courses for PyTorch: TransformerLM and its weights, a Gemma layer with its cache, verify() with gradients."""

import math
import os
import struct
import subprocess
import sys
import types

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import ridgeline
from ridgeline.lab import (
    GemmaDecoderLayer,
    GemmaRotaryEmbedding,
    StaticCache,
    benchmark_latency,
    benchmark_memory,
    create_decode_inputs_with_cache,
    create_decode_inputs_without_cache,
    create_prefill_inputs,
    decode_forward,
    default_schedule,
    gemma_config,
    get_position_embeddings,
    initialize_kv_cache,
    prefill_forward,
)
from ridgeline.torch import FlashAttention, TransformerLM, _safetensors

SIZES = {"d_model": 16, "d_ff": 24, "layers": 2, "heads": 2, "vocabulary": 40, "context_length": 8}
RUN = {**SIZES, "batch_size": 2, "device": "cpu", "threads": 1, "warmup_steps": 1, "measure_steps": 2}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    return tmp_path


def tiny_model(attention="ridgeline"):
    return TransformerLM(vocab_size=40, context_length=8, d_model=16, num_layers=2, num_heads=2, d_ff=24, attention=attention)


def logits_of_the_program(weights, mode):
    ridgeline.model(weights=weights, save_logits="logits.safetensors", scenario="forward", impl=mode, **RUN)
    tensors, _ = _safetensors.read("logits.safetensors")
    return tensors["tokens"].long(), tensors["logits"]


def test_weights_move_from_pytorch_to_the_program():
    model = tiny_model()
    model.save_safetensors("model.safetensors")
    tokens, logits = logits_of_the_program("model.safetensors", "vanilla")
    assert logits.shape == (2, 8, 40)
    torch.testing.assert_close(model(tokens), logits, rtol=1e-4, atol=1e-5)


def test_weights_move_from_the_program_to_pytorch():
    ridgeline.model(save_weights="trained.safetensors", scenario="full-step", impl="vanilla", **RUN)
    model = TransformerLM.from_safetensors("trained.safetensors", context_length=8)
    assert model.config["num_heads"] == 2 and model.config["num_layers"] == 2
    tokens, logits = logits_of_the_program("trained.safetensors", "vanilla")
    torch.testing.assert_close(model(tokens), logits, rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        model.layers[1].attn.k_proj.weight[0, 0] += 0.5
    assert not torch.allclose(model(tokens), logits, rtol=1e-4, atol=1e-5)


def test_all_forms_of_attention_give_the_same_loss_and_gradients():
    tokens, targets = torch.randint(0, 40, (2, 5)), torch.randint(0, 40, (2, 5))  # shorter than the context
    forms = ["plain", "ridgeline"] + ["sdpa"] * hasattr(torch.nn.functional, "scaled_dot_product_attention")
    models = [tiny_model(form) for form in forms]
    gradients = []
    for model in models:
        model.load_state_dict(models[0].state_dict())
        loss = model.loss(tokens, targets)
        gradients.append([loss.detach(), *torch.autograd.grad(loss, list(model.parameters()))])
    for other in gradients[1:]:
        for a, b in zip(gradients[0], other):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_sizes_have_names_and_as_many_parameters_as_the_course_says():
    with pytest.raises(ValueError, match="expected one of small"):
        TransformerLM.from_size("tiny", 8)
    model = TransformerLM.from_size("small", 8, num_layers=1, vocab_size=10)
    assert sum(p.numel() for p in model.parameters()) == 2 * 7680 + 4 * 768**2 + 3 * 768 * 3072 + 3 * 768


def damaged(change):
    tensors = {name: p.detach() for name, p in tiny_model().named_parameters()}
    metadata = {"heads": 2}
    change(tensors, metadata)
    _safetensors.write("damaged.safetensors", tensors, metadata)


@pytest.mark.parametrize(
    "change, part",
    [
        (lambda tensors, metadata: metadata.pop("heads"), "pass num_heads"),
        (lambda tensors, metadata: metadata.update(heads=3), "3 heads of a model 16 wide"),
        (lambda tensors, metadata: metadata.update(heads="two"), "heads of damaged.safetensors is 'two'"),
        (lambda tensors, metadata: metadata.update(heads=-2), "heads of damaged.safetensors is '-2'"),
        (lambda tensors, metadata: metadata.update(rope_theta="x"), "rope_theta of damaged.safetensors is 'x'"),
        (lambda tensors, metadata: metadata.update(rope_theta="nan"), "rope_theta of damaged.safetensors is 'nan'"),
        (lambda tensors, metadata: tensors.update({"token_embeddings.weight": torch.zeros(3)}), "expected a matrix"),
        (lambda tensors, metadata: tensors.pop("token_embeddings.weight"), "no token_embeddings.weight"),
        (lambda tensors, metadata: tensors.pop("lm_head.weight"), "lm_head.weight"),
        (lambda tensors, metadata: tensors.update(more=torch.zeros(1)), "more"),
    ],
)
def test_a_file_that_holds_another_model_is_refused(change, part):
    damaged(change)
    with pytest.raises(ridgeline.InvalidArgument, match=part):
        TransformerLM.from_safetensors("damaged.safetensors", 8)


def test_rope_theta_survives_a_file_and_can_be_given():
    sizes = {"vocab_size": 40, "context_length": 8, "d_model": 16, "num_layers": 1, "num_heads": 2, "d_ff": 24}
    model, tokens = TransformerLM(**sizes, rope_theta=123.456789), torch.arange(8)[None]
    model.save_safetensors("model.safetensors")
    again = TransformerLM.from_safetensors("model.safetensors", 8)
    assert again.config == model.config
    assert torch.equal(again(tokens), model(tokens))
    other = TransformerLM.from_safetensors("model.safetensors", 8, rope_theta=1e4)
    assert other.config["rope_theta"] == 1e4 and not torch.equal(other(tokens), model(tokens))
    with pytest.raises(ridgeline.InvalidArgument, match="rope_theta is -1"):
        TransformerLM.from_safetensors("model.safetensors", 8, rope_theta=-1)


@pytest.mark.parametrize("metadata", ["[1]", '"x"', '{"heads": 2}', "null"])
def test_metadata_that_are_no_texts_are_refused(folder, metadata):
    header = f'{{"__metadata__": {metadata}}}'.encode()
    (folder / "junk.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    with pytest.raises(ridgeline.InvalidArgument, match="is no safetensors file: its metadata is"):
        TransformerLM.from_safetensors("junk.safetensors", 8)


def test_files_have_the_rights_of_other_files(folder):
    before = os.umask(0o027)
    try:
        _safetensors.write("new.safetensors", {"x": torch.ones(1)})
    finally:
        os.umask(before)
    file = folder / "new.safetensors"
    assert file.stat().st_mode & 0o777 == 0o640
    file.chmod(0o604)
    _safetensors.write(file, {"x": torch.zeros(1)})
    assert file.stat().st_mode & 0o777 == 0o604 and _safetensors.read(file)[0]["x"] == 0
    with pytest.raises(KeyError):
        _safetensors.write(file, {"x": torch.zeros(1, dtype=torch.complex64)})
    assert os.listdir(folder) == ["new.safetensors"]


@pytest.mark.parametrize("attention", ["ridgeline", "sdpa", "plain"])
def test_models_and_their_layers_are_pickled_for_other_processes(folder, attention):
    if attention == "sdpa" and not hasattr(torch.nn.functional, "scaled_dot_product_attention"):
        pytest.skip("PyTorch older than 2.0")
    model = TransformerLM(50, 16, 32, 2, 2, 64, attention=attention)
    tokens = torch.randint(0, 50, (2, 16))
    torch.save((model.layers[0], model, tokens, model(tokens)), folder / "model.pt")
    code = """if True:
        import sys, torch
        _, model, tokens, logits = torch.load(sys.argv[1], weights_only=False)
        assert torch.equal(model(tokens), logits)
    """
    done = subprocess.run([sys.executable, "-c", code, folder / "model.pt"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_a_file_that_is_no_safetensors_is_refused(folder):
    tiny_model().save_safetensors("whole.safetensors")
    whole = (folder / "whole.safetensors").read_bytes()
    for text in (b"", b"12345678", b"\xff" * 100, whole[:100], whole[:-1], whole.replace(b'"F32"', b'"F33"', 1),
                 whole.replace(b'"data_offsets"', b'"data_offzets"', 1), whole[:8] + b"[1]" + whole[11:]):  # fmt: skip
        (folder / "cut.safetensors").write_bytes(text)
        with pytest.raises(ValueError, match="is no safetensors file"):
            TransformerLM.from_safetensors("cut.safetensors", 8)


def test_every_dtype_survives_a_file():
    tensors = {str(dtype): (torch.arange(6) % 2).reshape(2, 3).to(dtype) for dtype in _safetensors._NAMES}
    tensors["empty"] = torch.zeros(0, 3)
    _safetensors.write("all.safetensors", tensors)
    read, _ = _safetensors.read("all.safetensors")
    assert all(torch.equal(read[name], x) and read[name].dtype == x.dtype for name, x in tensors.items())


@pytest.mark.parametrize("layer_type", ["sliding_attention", "full_attention"])
@pytest.mark.parametrize("length", [3, 7])
@pytest.mark.parametrize("make_cache", [StaticCache, initialize_kv_cache])  # the second is transformers' where that is installed
def test_a_token_behind_the_cache_is_what_it_is_without_one(layer_type, length, make_cache):
    config = gemma_config("270m")
    config.sliding_window = 5
    layer = GemmaDecoderLayer(config, config.layer_types.index(layer_type)).eval()
    rotary = GemmaRotaryEmbedding(config)
    cache = make_cache(config, 16)
    before, positions = create_prefill_inputs(2, length, config.hidden_size)
    prefill_forward(layer, before, positions, get_position_embeddings(before, positions, rotary, layer_type), cache)
    for at in range(length, length + 4):
        token, position, place = create_decode_inputs_with_cache(2, at, config.hidden_size)
        embeddings = get_position_embeddings(token, position, rotary, layer_type)
        behind = decode_forward(layer, token, position, embeddings, True, cache, place)
        _, all_positions, _ = create_decode_inputs_without_cache(2, at, config.hidden_size)
        embeddings = get_position_embeddings(token, all_positions, rotary, layer_type)
        again = decode_forward(layer, token, all_positions, embeddings, False, prefill_hidden_states=before)
        assert behind.shape == (2, 1, config.hidden_size)
        torch.testing.assert_close(behind, again, rtol=1e-4, atol=1e-5)
        before = torch.cat((before, token), 1)


SCALED = {"full_attention": {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0},
          "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}  # fmt: skip


@pytest.mark.parametrize("ropes", [{"rope_parameters": SCALED}, {"rope_scaling": {"rope_type": "linear", "factor": 8.0}},
                                   {"rope_scaling": {"type": "linear", "factor": 8}, "rope_theta": 1e6}])  # fmt: skip
def test_a_linear_factor_divides_the_positions_of_full_attention(ropes):
    rotary = GemmaRotaryEmbedding(types.SimpleNamespace(head_dim=16, **ropes))
    x, positions = torch.zeros(1), torch.tensor([[0, 3, 800]])
    for kind, theta, factor in (("full_attention", 1e6, 8), ("sliding_attention", 1e4, 1)):
        angles = positions[..., None].double() / factor * theta ** (-torch.arange(0, 16, 2).double() / 16)
        for got, right in zip(rotary(x, positions, kind), (angles.cos(), angles.sin())):
            torch.testing.assert_close(got, torch.cat((right, right), -1).float(), rtol=0, atol=1e-4)


def test_rotary_embeddings_of_every_gemma_are_those_of_transformers():
    modeling = pytest.importorskip("transformers.models.gemma3.modeling_gemma3")
    x, positions = torch.zeros(1), torch.tensor([[0, 3, 800]])
    for size in ("270m", "1b", "4b"):
        config = gemma_config(size)
        theirs, ours = modeling.Gemma3RotaryEmbedding(config), GemmaRotaryEmbedding(config)
        for kind in ("full_attention", "sliding_attention"):
            for a, b in zip(ours(x, positions, kind), theirs(x, positions, kind)):
                torch.testing.assert_close(a, b, rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    "table, part",
    [
        ({"rope_type": "yarn", "factor": 8.0}, "rope_type of full_attention is 'yarn'"),
        ({"rope_type": "linear", "factor": 0}, "factor of full_attention is 0"),
        ({"rope_theta": "much"}, "rope_theta of full_attention is 'much'"),
    ],
)
def test_rotary_embeddings_that_are_not_served_are_refused(table, part):
    with pytest.raises(ridgeline.Error, match=part):
        GemmaRotaryEmbedding(types.SimpleNamespace(head_dim=16, rope_parameters={"full_attention": table}))


class Reads(TorchDispatchMode):
    """Counts the values that the host reads from tensors; each would wait for a GPU."""

    count = 0

    def __torch_dispatch__(self, function, kinds, arguments=(), keywords=None):
        self.count += function is torch.ops.aten._local_scalar_dense.default
        return function(*arguments, **(keywords or {}))


def test_a_decode_step_reads_no_position_from_the_device():
    config = types.SimpleNamespace(num_hidden_layers=2)
    cache, row = StaticCache(config, 8), torch.ones(1, 1, 1, 4)
    cache.update(*[torch.zeros(1, 1, 3, 4)] * 2, 0, torch.arange(3))
    _, _, place = create_decode_inputs_with_cache(1, 3, 8)
    with Reads() as reads:
        for layer in (0, 1, 0):
            keys, _ = cache.update(row, row, layer, place)
            assert keys.shape[2] == 4
    assert reads.count == 0
    place += 2  # a loop that counts in place
    with Reads() as reads:
        assert [cache.update(row, row, layer, place)[0].shape[2] for layer in (0, 1)] == [6, 6]
    assert reads.count == 1
    with torch.inference_mode():
        assert cache.update(row, row, 0, torch.tensor([6]))[0].shape[2] == 7


def test_a_layer_refuses_what_it_cannot_run():
    config = gemma_config("270m")
    layer, rotary = GemmaDecoderLayer(config), GemmaRotaryEmbedding(config)
    token, position, place = create_decode_inputs_with_cache(1, 3, config.hidden_size)
    with pytest.raises(ValueError, match="layer_type is 'global'"):
        get_position_embeddings(token, position, rotary, "global")
    embeddings = get_position_embeddings(token, position, rotary, "sliding_attention")
    with pytest.raises(ValueError, match="needs past_key_values"):
        decode_forward(layer, token, position, embeddings)
    with pytest.raises(ValueError, match="needs prefill_hidden_states"):
        decode_forward(layer, token, position, embeddings, False)
    with pytest.raises(ValueError, match="position 3 in a cache of 2"):
        decode_forward(layer, token, position, embeddings, True, StaticCache(config, 2), place)


def test_memory_and_latency_of_tensors():
    x = torch.randn(64, 64)
    assert benchmark_latency(torch.matmul, x, x, n_warmup=1, n_repeat=3) > 0
    peak, allocated = benchmark_memory(lambda: (x @ x).exp(), n_warmup=1, n_repeat=1)
    if not torch.cuda.is_available():
        assert peak == pytest.approx(2 * 64 * 64 * 4 / 1e9) and allocated == pytest.approx(64 * 64 * 4 / 1e9)


def test_the_schedule_waits_warms_up_and_records():
    from torch.profiler import ProfilerAction

    names = [default_schedule(step).name for step in range(11)]
    assert names[:10] == ["NONE"] + ["WARMUP"] * 3 + ["RECORD"] * 5 + ["RECORD_AND_SAVE"] and names[10] == "NONE"
    assert isinstance(default_schedule(0), ProfilerAction)


def plain(q, k, v, is_causal=False):
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    if is_causal:
        scores = scores.masked_fill(~torch.ones(scores.shape[-2:], dtype=torch.bool).tril(), -math.inf)
    return torch.softmax(scores, -1) @ v


def test_verify_checks_gradients_and_three_dtypes():
    found = ridgeline.verify(ridgeline.attention, problems=9, benchmark=(1, 2, 32, 16), iterations=6)
    assert found.passed, found.notes
    assert {row["tensor"] for row in found} == {"out", "d_q", "d_k", "d_v"}
    assert {row["dtype"] for row in found} == {"float32", "bfloat16", "float16"}
    assert {row["name"] for row in found.timings} == {"forward", "forward and backward"}


def test_verify_takes_functions_of_courses():
    found = ridgeline.verify(FlashAttention.apply, problems=6, heads=False, benchmark=None)
    assert found.passed and any(row["causal"] for row in found), found.notes
    assert ridgeline.verify(plain, problems=6, dtypes=["float32"], benchmark=None).passed


def test_verify_reports_what_a_function_raises():
    found = ridgeline.verify(lambda q, k, v, causal: q.no_such_method(), problems=3, dtypes="float32")
    assert not found.passed and len(found) == 3 and not found.timings
    assert all("no attribute 'no_such_method'" in row["raised"] for row in found)
    with pytest.raises(ridgeline.WrongType, match="no len"):
        ridgeline.verify(lambda q, k, v, causal: len(1.5), problems=3)


def test_verify_sees_three_percent_in_bfloat16():
    def near(q, k, v, causal):
        return ridgeline.attention(q, k, v, causal=causal) * 1.03

    found = ridgeline.verify(near, problems=8, dtypes=["bfloat16"], gradients=False, benchmark=None)
    assert sum(not row["ok"] for row in found) >= 7, found.notes


class Halved(torch.autograd.Function):
    """A forward that is right, with a gradient of v that is not."""

    @staticmethod
    def forward(ctx, q, k, v, is_causal):
        ctx.save_for_backward(q, k, v)
        ctx.is_causal = is_causal
        return plain(q, k, v, is_causal)

    @staticmethod
    def backward(ctx, d_out):
        with torch.enable_grad():
            leaves = [x.detach().requires_grad_() for x in ctx.saved_tensors]
            d_q, d_k, d_v = torch.autograd.grad(plain(*leaves, ctx.is_causal), leaves, d_out)
        return d_q, d_k, d_v / 2, None


def test_verify_says_that_gradients_were_not_checked():
    note = "gradients not checked: the output has none"
    cut = {"problems": 3, "dtypes": ["float32"], "benchmark": None}
    found = ridgeline.verify(lambda q, k, v, causal: plain(q, k, v, causal).detach(), **cut)
    assert found.passed and note in found.notes
    assert note not in ridgeline.verify(plain, **cut).notes
    assert note not in ridgeline.verify(plain, **cut, gradients=False).notes
    sometimes = ridgeline.verify(lambda q, k, v: plain(q, k, v) if len(q) > 1 else plain(q, k, v).detach(),
                                 problems=12, dtypes=["float32"], benchmark=None)  # fmt: skip
    few = len({row["seed"] for row in sometimes if row["shape"].startswith("1x")})
    assert 0 < few < 12 and f"gradients not checked in {few} problems: the output has none" in sometimes.notes


def test_verify_finds_a_gradient_that_is_wrong():
    found = ridgeline.verify(Halved.apply, problems=4, dtypes=["float32"], benchmark=None)
    assert not found.passed
    assert {row["tensor"] for row in found if not row["ok"]} == {"d_v"}


@pytest.mark.parametrize("layer_type", ["sliding_attention", "full_attention"])
def test_layers_of_transformers_take_the_same_helpers_and_give_the_same_values(layer_type):
    modeling = pytest.importorskip("transformers.models.gemma3.modeling_gemma3")
    config = gemma_config("270m")
    config.sliding_window, config._attn_implementation = 5, "eager"
    index = config.layer_types.index(layer_type)
    theirs, ours = modeling.Gemma3DecoderLayer(config, index).eval(), GemmaDecoderLayer(config, index).eval()
    with torch.no_grad():
        for p in theirs.parameters():
            p.add_(0.1 * torch.randn_like(p))
    ours.load_state_dict(theirs.state_dict())
    prompt, positions = create_prefill_inputs(2, 7, config.hidden_size)
    token, position, place = create_decode_inputs_with_cache(2, 7, config.hidden_size)
    results = []
    for layer, rotary, cache in (
        (theirs, modeling.Gemma3RotaryEmbedding(config), initialize_kv_cache(config, 16)),
        (ours, GemmaRotaryEmbedding(config), StaticCache(config, 16)),
    ):
        embeddings = get_position_embeddings(prompt, positions, rotary, layer_type)
        first = prefill_forward(layer, prompt, positions, embeddings, cache)
        embeddings = get_position_embeddings(token, position, rotary, layer_type)
        results.append((first, decode_forward(layer, token, position, embeddings, True, cache, place)))
        whole = torch.arange(8).expand(2, -1)
        embeddings = get_position_embeddings(token, whole, rotary, layer_type)
        again = decode_forward(layer, token, whole, embeddings, False, prefill_hidden_states=prompt)
        torch.testing.assert_close(again, results[-1][1], rtol=1e-4, atol=1e-4)
    for a, b in zip(*results):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
