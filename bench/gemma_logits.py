"""Compares Gemma-3's logits with transformers' on the same random weights, on this CPU.

  python bench/gemma_logits.py                      all cases: shapes of 270m, 1b and 4b with fewer layers and tokens
  python bench/gemma_logits.py --cases 4b --keep /tmp/gemma

Needs transformers (5.x), PyTorch, safetensors, and a built models_tests. Every case is a folder: config.json, weights in
bf16, and expected.safetensors with tokens and the logits of eager transformers in fp32 and in bf16. models_tests then
loads the folder as a user's checkpoint and prints a line for each way of running it: its largest and root-mean-square
error against fp32, and those of transformers' own bf16. The rule: at most twice the latter, and the same greedy token
at every position where the best two logits of fp32 are further apart than the error. Runs with and without a cache, and
prompts in chunks and at once, are compared by the same rule.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import torch
import transformers
from safetensors.torch import save_file

TESTS = pathlib.Path(__file__).resolve().parent.parent / "build/release/tests/models_tests"

COMMON = dict(head_dim=256, query_pre_attn_scalar=256, rope_theta=1e6, rope_local_base_freq=1e4, vocab_size=2048,
              max_position_embeddings=4096)
# Shapes of the published models with fewer layers, smaller vocabularies and, if prompts should exceed them, windows.
CASES = {
    "270m": dict(COMMON, hidden_size=640, intermediate_size=2048, num_hidden_layers=6, num_attention_heads=4,
                 num_key_value_heads=1, sliding_window=512, tokens=640),
    "270m-window": dict(COMMON, hidden_size=640, intermediate_size=2048, num_hidden_layers=12, num_attention_heads=4,
                        num_key_value_heads=1, sliding_window=32, tokens=256, batch=2),
    "1b": dict(COMMON, hidden_size=1152, intermediate_size=6912, num_hidden_layers=6, num_attention_heads=4,
               num_key_value_heads=1, sliding_window=64, tokens=256),
    "4b": dict(COMMON, hidden_size=1024, intermediate_size=4096, num_hidden_layers=6, num_attention_heads=8,
               num_key_value_heads=4, sliding_window=64, rope_scaling={"rope_type": "linear", "factor": 8.0}, tokens=256),
}


def random_weights(config, seed):
    """Returns a model initialised by the library, but with weights of norms that differ from 1."""
    torch.manual_seed(seed)
    model = transformers.Gemma3ForCausalLM(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.normal_(0, 0.2)
            parameter.copy_(parameter.bfloat16())  # both precisions read the same weights
    return model.eval()


def logits(model, tokens, dtype):
    """Returns the logits in a dtype, cast as from_pretrained(dtype=...) does: model.to() would also round RoPE's
    frequencies, and the reference error would be up to four times too large."""
    for parameter in model.parameters():
        parameter.data = parameter.data.to(dtype)
    assert all(value.dtype == torch.float32 for name, value in model.named_buffers() if "inv_freq" in name)
    with torch.no_grad():
        return model(tokens, use_cache=False).logits.float()


def write_weights(folder, name, config, model):
    """Writes weights as published: one file, or two and an index, with the prefix of models with a vision tower."""
    tensors = {key: value.bfloat16().contiguous() for key, value in model.state_dict().items() if key != "lm_head.weight"}
    described = dict(config.to_dict(), torch_dtype="bfloat16")
    if name != "4b":
        save_file(tensors, folder / "model.safetensors")
        (folder / "config.json").write_text(json.dumps(described))
        return
    tensors = {"language_model." + key: value for key, value in tensors.items()}
    tensors["vision_tower.weight"] = torch.zeros(3)
    weight_map = {}
    for shard in range(2):
        file = f"model-{shard + 1:05}-of-00002.safetensors"
        part = {key: value for i, (key, value) in enumerate(sorted(tensors.items())) if i % 2 == shard}
        save_file(part, folder / file)
        weight_map.update({key: file for key in part})
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    (folder / "config.json").write_text(json.dumps({"model_type": "gemma3", "text_config": described}))


def write_case(folder, name, seed):
    sizes = dict(CASES[name])
    tokens, batch = sizes.pop("tokens"), sizes.pop("batch", 1)
    config = transformers.Gemma3TextConfig(attn_implementation="eager", **sizes)
    model = random_weights(config, seed)
    ids = torch.randint(0, config.vocab_size, (batch, tokens))
    folder.mkdir(parents=True)
    write_weights(folder, name, config, model)
    save_file({"tokens": ids.int(), "fp32": logits(model, ids, torch.float32), "bf16": logits(model, ids, torch.bfloat16)},
              folder / "expected.safetensors")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=",".join(CASES), help="which, by name")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=pathlib.Path, help="leave the folders of the cases here")
    parser.add_argument("--tests", type=pathlib.Path, default=TESTS)
    args = parser.parse_args()
    print(f"transformers {transformers.__version__}, PyTorch {torch.__version__}")
    with tempfile.TemporaryDirectory() as scratch:
        root = args.keep or pathlib.Path(scratch)
        for name in args.cases.split(","):
            write_case(root / name, name, args.seed)
        return subprocess.run([args.tests, "--gtest_filter=GemmaCheckpoints.*", "--gtest_brief=1"],
                              env=dict(os.environ, RIDGELINE_GEMMA_CASES=str(root))).returncode


if __name__ == "__main__":
    sys.exit(main())
