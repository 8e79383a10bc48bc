"""Gemma-3 of llama.cpp, decoding greedily, from a gguf file written from ridgeline's weights."""
import ctypes
import json
import math
import os
import struct
import time

from .process_memory import Growth
from .refusal import Refusal, missing

try:
    import gguf
    import numpy
except ImportError as problem:
    raise missing("gguf", problem) from problem
try:
    import llama_cpp
except ImportError as problem:
    raise missing("llama-cpp-python", problem) from problem

OF_LAYER = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "input_layernorm": "attn_norm", "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}
OF_MODEL = {"embed_tokens": "token_embd", "norm": "output_norm"}
STORED = {"bf16": gguf.GGMLQuantizationType.BF16, "fp32": gguf.GGMLQuantizationType.F32}


def stored_tensors(folder):
    """Yields the name and the values of each text tensor, in fp32 because numpy has no bf16."""
    for file in sorted(os.listdir(folder)):
        if not file.endswith(".safetensors"):
            continue
        with open(os.path.join(folder, file), "rb") as stream:
            size, = struct.unpack("<Q", stream.read(8))
            header = json.loads(stream.read(size))
            data = numpy.memmap(stream, dtype=numpy.uint8, mode="r", offset=8 + size)
        for name, entry in header.items():
            if name == "__metadata__" or name.startswith(("vision_tower.", "multi_modal_projector.")):
                continue
            begin, end = entry["data_offsets"]
            raw = data[begin:end]
            if entry["dtype"] == "BF16":
                values = (raw.view(numpy.uint16).astype(numpy.uint32) << 16).view(numpy.float32)
            else:
                values = raw.view({"F32": numpy.float32, "F16": numpy.float16}[entry["dtype"]]).astype(numpy.float32)
            yield name, values.reshape(entry["shape"])


def name_in_gguf(name):
    name = name.replace("language_model.", "").removeprefix("model.").removesuffix(".weight")
    if name.startswith("layers."):
        _, layer, rest = name.split(".", 2)
        return f"blk.{layer}.{OF_LAYER[rest]}.weight"
    return f"{OF_MODEL[name]}.weight"


def write_gguf(folder, dtype):
    """Returns the path of the file, which is written once for each folder and dtype."""
    path = os.path.join(folder, f"ridgeline-{dtype}.gguf")
    if os.path.exists(path):
        return path
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    config = config.get("text_config", config)
    rope = config["rope_parameters"]
    if rope["full_attention"].get("factor", 1) != 1:
        raise Refusal("unsupported", "a gguf file with scaled RoPE in full layers alone is not written",
                      "measure 270m or 1b")
    writer = gguf.GGUFWriter(path + ".part", "gemma3")
    writer.add_name("ridgeline")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_sliding_window(config["sliding_window"])
    writer.add_uint32("gemma3.attention.sliding_window_pattern", 6)
    writer.add_rope_freq_base(rope["full_attention"]["rope_theta"])
    writer.add_float32("gemma3.rope.freq_base_swa", rope["sliding_attention"]["rope_theta"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_tokenizer_model("none")
    for name, values in stored_tensors(folder):
        if values.ndim == 1:  # weights of norms are stored less 1, and llama.cpp expects them whole
            writer.add_tensor(name_in_gguf(name), values + numpy.float32(1))
        else:
            kind = STORED[dtype]
            writer.add_tensor(name_in_gguf(name), gguf.quants.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    os.replace(path + ".part", path)
    return path


class Problem:
    leaves_memory_taken = False
    has_queue = False

    def __init__(self, request):
        self.request = request
        on_gpu = request["device"].startswith("cuda")
        if on_gpu and not llama_cpp.llama_supports_gpu_offload():
            raise Refusal("unsupported", "this llama-cpp-python was built without CUDA",
                          "reinstall it with CMAKE_ARGS=-DGGML_CUDA=on")
        self.prompt, self.batch_size = request["prompt"], request["batch_size"]
        path = write_gguf(request["folder"], request["dtype"])
        self.growth = Growth()
        llama_cpp.llama_backend_init()
        self.quiet = llama_cpp.llama_log_callback(lambda *_: None)
        llama_cpp.llama_log_set(self.quiet, ctypes.c_void_p())
        settings = llama_cpp.llama_model_default_params()
        settings.n_gpu_layers = 999 if on_gpu else 0
        settings.use_mmap = False  # weights are in memory of the process, as ours are
        self.model = llama_cpp.llama_model_load_from_file(path.encode(), settings)
        if not self.model:
            raise Refusal("invalid", f"llama.cpp could not load {path}")
        self.vocabulary = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self.model))
        tokens = self.batch_size * len(self.prompt)
        settings = llama_cpp.llama_context_default_params()
        settings.n_ctx = self.batch_size * request["capacity"]
        settings.n_batch = settings.n_ubatch = max(tokens, self.batch_size)
        settings.n_seq_max = self.batch_size
        settings.n_threads = settings.n_threads_batch = request["threads"]
        settings.swa_full = False
        self.context = llama_cpp.llama_init_from_model(self.model, settings)
        if not self.context:
            raise Refusal("invalid", "llama.cpp could not make a context")
        self.batch = llama_cpp.llama_batch_init(max(tokens, self.batch_size), 0, 1)

    def add(self, token, position, sequence, wants_logits):
        at = self.batch.n_tokens
        self.batch.token[at], self.batch.pos[at] = token, position
        self.batch.n_seq_id[at], self.batch.seq_id[at][0] = 1, sequence
        self.batch.logits[at] = wants_logits
        self.batch.n_tokens += 1

    def run(self):
        """Runs the batch and returns the next token of each text."""
        if status := llama_cpp.llama_decode(self.context, self.batch):
            raise Refusal("invalid", f"llama_decode ended with {status}")
        found = []
        for at in range(self.batch.n_tokens):
            if self.batch.logits[at]:
                logits = llama_cpp.llama_get_logits_ith(self.context, at)
                found.append(int(numpy.ctypeslib.as_array(logits, (self.vocabulary,)).argmax()))
        return found

    def prefill(self):
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.context), True)
        self.batch.n_tokens = 0
        for sequence in range(self.batch_size):
            for position, token in enumerate(self.prompt):
                self.add(token, position, sequence, position + 1 == len(self.prompt))
        return self.run()

    def text(self):
        """Returns all new tokens of the first text, and the milliseconds of every step."""
        tokens = self.prefill()
        first, step_ms = [tokens[0]], []
        for position in range(len(self.prompt), len(self.prompt) + self.request["new_tokens"] - 1):
            begin = time.perf_counter()
            self.batch.n_tokens = 0
            for sequence, token in enumerate(tokens):
                self.add(token, position, sequence, True)
            tokens = self.run()
            step_ms.append(1e3 * (time.perf_counter() - begin))
            first.append(tokens[0])
        return first, step_ms

    def meet_every_kernel(self):
        self.text()

    def run_watched(self, _results):
        return {} if self.request["device"].startswith("cuda") else self.growth.facts()

    def sample(self):
        begin = time.perf_counter()
        self.prefill()
        ms = 1e3 * (time.perf_counter() - begin)
        return [ms, ms]  # llama_decode returns with the logits on the host

    def facts(self):
        return {"ran": "llama_decode", "clock": "host", "weights": f"gguf, {self.request['dtype']}",
                "versions": {"llama-cpp-python": llama_cpp.__version__}}

    def check_after_samples(self):
        if not math.isfinite(llama_cpp.llama_get_logits_ith(self.context, 0)[0]):
            raise Refusal("wrong", "llama.cpp's logits are not finite")

    def drop(self):
        llama_cpp.llama_batch_free(self.batch)
        llama_cpp.llama_free(self.context)
        llama_cpp.llama_model_free(self.model)
