"""Every type of GGUF against the gguf package: a model in it gives the logits of its dequantized values, to the last bit."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type
from safetensors.numpy import load_file, save_file

BINARY = sys.argv[1]
DATA = Path(__file__).parent.parent / "data"
rng = np.random.default_rng(16)

LLADA = {
    "model.transformer.wte": "token_embd",
    "model.transformer.ln_f": "output_norm",
    "model.transformer.ff_out": "output",
    "attn_norm": "attn_norm",
    "q_proj": "attn_q",
    "k_proj": "attn_k",
    "v_proj": "attn_v",
    "attn_out": "attn_output",
    "ff_norm": "ffn_norm",
    "ff_proj": "ffn_gate",
    "up_proj": "ffn_up",
    "ff_out": "ffn_down",
}
QWEN = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm", "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    "mlp.gate": "ffn_gate_inp",
}  # fmt: skip


def renamed(name, names):
    """llama.cpp's name of a tensor."""
    stem, kind = name.rsplit(".", 1)
    if stem in names:
        return f"{names[stem]}.{kind}"
    for prefix in ["model.transformer.blocks.", "model.layers."]:
        if stem.startswith(prefix):
            layer, part = stem[len(prefix) :].split(".", 1)
            return f"blk.{layer}.{names[part]}.{kind}"
    raise KeyError(name)


def interleaved(values, heads):
    """The order in which llama.cpp's converter puts the rows of LLaDA's query and key heads."""
    shape = values.shape
    return values.reshape(heads, 2, shape[0] // heads // 2, *shape[1:]).swapaxes(1, 2).reshape(shape)


def apart(values, heads):
    shape = values.shape
    return values.reshape(heads, shape[0] // heads // 2, 2, *shape[1:]).swapaxes(1, 2).reshape(shape)


def quantized(values, kind):
    """The bytes of a tensor in a type, and the values that they mean."""
    values = values.astype(np.float32)
    if values.ndim == 1 or kind == Type.F32:
        return values, None, values
    size, width = gguf.GGML_QUANT_SIZES[kind]
    if kind == Type.F16 or values.shape[-1] % size != 0:  # the converter does so too
        return values.astype(np.float16), None, values.astype(np.float16).astype(np.float32)
    try:
        data = gguf.quants.quantize(values, kind)
    except NotImplementedError:  # it only reads this type: random blocks with sane scales
        blocks = rng.integers(0, 256, (values.size // size, width), dtype=np.uint8)
        halves = {Type.Q4_K: [0, 2], Type.Q5_K: [0, 2], Type.Q6_K: [208]}[kind]
        for at in halves:
            scale = rng.uniform(-3e-4, 3e-4, len(blocks)).astype(np.float16)
            blocks[:, at : at + 2] = scale.view(np.uint8).reshape(-1, 2)
        data = blocks.reshape(*values.shape[:-1], -1)
    return data, kind, gguf.quants.dequantize(data, kind)


def write(path, architecture, config, tensors, names, kind, parts=1):
    """A GGUF file, as llama.cpp's converter writes it; the values that it holds."""
    get = lambda *keys: next(config[key] for key in keys if config.get(key) is not None)
    writer = gguf.GGUFWriter(path, architecture, split_max_tensors=0 if parts == 1 else -(-len(tensors) // parts))
    heads = get("n_heads", "num_attention_heads")
    kv_heads = config.get("n_kv_heads") or config.get("num_key_value_heads") or heads
    writer.add_block_count(get("n_layers", "num_hidden_layers"))
    writer.add_context_length(get("max_sequence_length", "max_position_embeddings"))
    writer.add_embedding_length(get("d_model", "hidden_size"))
    if width := config.get("mlp_hidden_size") or config.get("intermediate_size"):
        writer.add_feed_forward_length(width)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_rope_freq_base(config.get("rope_theta", 10000.0))
    writer.add_layer_norm_rms_eps(config.get("rms_norm_eps", 1e-5))
    if config.get("head_dim"):
        writer.add_key_length(config["head_dim"])
    if "num_experts" in config:
        writer.add_expert_count(config["num_experts"])
        writer.add_expert_used_count(config["num_experts_per_tok"])
        writer.add_expert_feed_forward_length(config["expert_intermediate_size"])
    if config.get("mask_token_id") is not None:
        writer.add_mask_token_id(config["mask_token_id"])
    meant, experts = {}, {}
    for name, values in tensors.items():
        turned = heads if "q_proj" in name else kv_heads if "k_proj" in name else 0
        turned = turned if architecture == "llada" else 0
        data, raw, back = quantized(interleaved(values, turned) if turned else values, kind)
        meant[name] = np.ascontiguousarray(apart(back, turned) if turned else back)
        if ".experts." in name:
            layer, rest = name.removeprefix("model.layers.").split(".mlp.experts.")
            expert, part, _ = rest.split(".")
            experts.setdefault((layer, part), {})[int(expert)] = (data, raw)
            continue
        writer.add_tensor(renamed(name, names), np.ascontiguousarray(data), raw_dtype=raw)
    for (layer, part), all_of_them in experts.items():
        stacked = np.stack([all_of_them[expert][0] for expert in sorted(all_of_them)])
        writer.add_tensor(
            f"blk.{layer}.ffn_{part.removesuffix('_proj')}_exps.weight", stacked, raw_dtype=all_of_them[0][1]
        )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return meant


def probe(model, mask):
    tokens = ",".join(str(token) for token in [3, 7, 1, mask, mask, 9, mask, 2])
    command = [
        BINARY,
        "probe",
        "--model",
        str(model),
        "--tokens",
        tokens,
        "--precision",
        "f32",
        "--device",
        "cpu",
        "--format",
        "json",
    ]
    done = subprocess.run([*command, "--mask-token", str(mask)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def compare(folder, architecture, config, tensors, names, kind, parts=1):
    stem = f"{architecture}-{kind.name}"
    path = folder / f"{stem}.gguf"
    meant = write(path, architecture, config, tensors, names, kind, parts)
    directory = folder / stem
    directory.mkdir()
    (directory / "config.json").write_text(json.dumps(config))
    save_file(meant, directory / "model.safetensors")
    first = path if parts == 1 else folder / f"{stem}-00001-of-{parts:05}.gguf"
    mask = config["mask_token_id"]
    assert probe(first, mask) == probe(directory, mask), stem
    print(f"{stem}: the same logits" + (f", from {parts} files" if parts > 1 else ""))


def checkpoint(directory):
    return json.loads((directory / "config.json").read_text()), load_file(directory / "model.safetensors")


def wide():
    """A LLaDA whose rows are whole blocks of 256."""
    config = {
        "architectures": ["LLaDAModelLM"], "model_type": "llada", "d_model": 256, "n_heads": 4, "n_kv_heads": 2, "n_layers": 2,
        "mlp_hidden_size": 512, "vocab_size": 64, "embedding_size": 64, "max_sequence_length": 64, "rope_theta": 10000.0,
        "rms_norm_eps": 1e-5, "mask_token_id": 5, "weight_tying": False,
    }  # fmt: skip
    block = {
        "attn_norm": (256,), "ff_norm": (256,), "q_proj": (256, 256), "k_proj": (128, 256), "v_proj": (128, 256),
        "attn_out": (256, 256), "ff_proj": (512, 256), "up_proj": (512, 256), "ff_out": (256, 512),
    }  # fmt: skip
    shapes = {
        f"model.transformer.blocks.{layer}.{name}.weight": shape for layer in range(2) for name, shape in block.items()
    }
    shapes |= {
        f"model.transformer.{name}.weight": shape
        for name, shape in {"wte": (64, 256), "ln_f": (256,), "ff_out": (64, 256)}.items()
    }
    return config, {name: rng.normal(0, 0.05, shape).astype(np.float32) for name, shape in shapes.items()}


def experts():
    """A LLaDA-MoE."""
    config = {
        "architectures": ["LLaDAMoEModelLM"], "model_type": "llada", "hidden_size": 64, "num_attention_heads": 4,
        "num_key_value_heads": 4, "num_hidden_layers": 2, "num_experts": 8, "num_experts_per_tok": 2,
        "expert_intermediate_size": 32, "vocab_size": 64, "max_position_embeddings": 64, "rope_theta": 50000.0,
        "rms_norm_eps": 1e-5, "qk_layernorm": True, "tie_word_embeddings": False, "mask_token_id": 5,
    }  # fmt: skip
    block = {
        f"mlp.experts.{e}.{part}_proj": (64, 32) if part == "down" else (32, 64)
        for e in range(8)
        for part in ("gate", "up", "down")
    }
    block |= {f"self_attn.{part}_proj": (64, 64) for part in "qkvo"} | {
        f"self_attn.{part}_norm": (16,) for part in "qk"
    }
    block |= {"mlp.gate": (8, 64), "input_layernorm": (64,), "post_attention_layernorm": (64,)}
    shapes = {f"model.layers.{layer}.{name}.weight": shape for layer in range(2) for name, shape in block.items()}
    shapes |= {"model.embed_tokens.weight": (64, 64), "model.norm.weight": (64,), "lm_head.weight": (64, 64)}
    return config, {name: rng.normal(0, 0.1, shape).astype(np.float32) for name, shape in shapes.items()}


with tempfile.TemporaryDirectory() as folder:
    folder = Path(folder)
    for kind in [Type.F32, Type.F16, Type.BF16, Type.Q8_0, Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1]:
        compare(folder, "llada", *checkpoint(DATA / "llada-tiny"), LLADA, kind)
    for kind in [Type.Q4_K, Type.Q5_K, Type.Q6_K]:
        compare(folder, "llada", *wide(), LLADA, kind)
    compare(folder, "dream", *checkpoint(DATA / "dream-tiny"), QWEN, Type.Q8_0)
    compare(folder, "dream", *checkpoint(DATA / "dream-tiny"), QWEN, Type.F32, parts=3)
    for kind in [Type.F32, Type.Q8_0]:
        compare(folder, "llada-moe", *experts(), QWEN, kind)
