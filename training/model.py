"""LLaDA: a bidirectional Transformer (pre-norm RMSNorm, RoPE, SwiGLU, no biases, untied head) that
predicts masked tokens. Tensor names and config.json are those of the official checkpoints."""

import json
import math
import os
from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import nn


@dataclass
class Config:
    d_model: int = 320
    n_heads: int = 5
    n_layers: int = 8
    mlp_hidden_size: int = 896
    vocab_size: int = 2048
    max_sequence_length: int = 1024
    rope_theta: float = 500000.0
    rms_norm_eps: float = 1e-5
    mask_token_id: int = 5
    eos_token_id: int = 1

    def to_json(self):
        """The config.json of an official LLaDA checkpoint with our sizes."""
        fixed = dict(
            activation_type="silu",
            alibi=False,
            alibi_bias_max=8.0,
            architectures=["LLaDAModelLM"],
            attention_dropout=0.0,
            attention_layer_norm=False,
            attention_layer_norm_with_affine=True,
            auto_map={
                "AutoConfig": "configuration_llada.LLaDAConfig",
                "AutoModel": "modeling_llada.LLaDAModelLM",
                "AutoModelForCausalLM": "modeling_llada.LLaDAModelLM",
            },
            bias_for_layer_norm=False,
            block_group_size=1,
            block_type="llama",
            embedding_dropout=0.0,
            embedding_size=self.vocab_size,
            flash_attention=False,
            include_bias=False,
            include_qkv_bias=False,
            init_cutoff_factor=None,
            init_device="meta",
            init_fn="mitchell",
            init_std=0.02,
            input_emb_norm=False,
            layer_norm_type="rms",
            layer_norm_with_affine=True,
            mlp_ratio=4,
            model_type="llada",
            multi_query_attention=None,
            n_kv_heads=self.n_heads,
            pad_token_id=self.eos_token_id,
            precision="amp_bf16",
            residual_dropout=0.0,
            rope=True,
            rope_full_precision=True,
            scale_logits=False,
            torch_dtype="bfloat16",
            use_cache=False,
            weight_tying=False,
        )
        return dict(sorted({**fixed, **asdict(self)}.items()))

    @classmethod
    def from_json(cls, path):
        with open(path) as f:
            values = json.load(f)
        return cls(**{k: values[k] for k in cls.__dataclass_fields__})


class RMSNorm(nn.Module):
    def __init__(self, dim, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(dim)), eps

    def forward(self, x):
        y = x.float()
        return self.weight * (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)).to(x.dtype)


def rotate(x, cos, sin):
    """RoPE in float32, halves convention."""
    y = x.float()
    a, b = y.chunk(2, dim=-1)
    return (y * cos + torch.cat((-b, a), dim=-1) * sin).to(x.dtype)


class Block(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        d, h = cfg.d_model, cfg.mlp_hidden_size
        self.heads = cfg.n_heads
        self.attn_norm, self.ff_norm = RMSNorm(d, cfg.rms_norm_eps), RMSNorm(d, cfg.rms_norm_eps)
        self.q_proj, self.k_proj, self.v_proj, self.attn_out = (nn.Linear(d, d, bias=False) for _ in range(4))
        self.ff_proj, self.up_proj, self.ff_out = (
            nn.Linear(d, h, bias=False),
            nn.Linear(d, h, bias=False),
            nn.Linear(h, d, bias=False),
        )

    def qkv(self, x, rope):
        B, T, d = x.shape
        w = torch.cat((self.q_proj.weight, self.k_proj.weight, self.v_proj.weight))
        q, k, v = (
            F.linear(self.attn_norm(x), w).view(B, T, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4).unbind()
        )
        return rotate(q, *rope), rotate(k, *rope), v

    def forward(self, x, rope, key_mask=None):
        q, k, v = self.qkv(x, rope)
        att = F.scaled_dot_product_attention(
            q, k, v, attn_mask=None if key_mask is None else key_mask[:, None, None, :]
        )
        x = x + self.attn_out(att.transpose(1, 2).flatten(2))
        w = torch.cat((self.ff_proj.weight, self.up_proj.weight))
        gate, up = F.linear(self.ff_norm(x), w).chunk(2, dim=-1)
        return x + self.ff_out(F.silu(gate) * up)

    def attention(self, x, rope, key_mask, start):
        """Head-averaged attention probabilities of the positions from `start` on: [batch, T - start, T]."""
        q, k, _ = self.qkv(x, rope)
        s = (q[:, :, start:] @ k.mT).float() / math.sqrt(q.shape[-1])
        if key_mask is not None:
            s = s.masked_fill(~key_mask[:, None, None, :], float("-inf"))
        return s.softmax(-1).mean(1)


class LLaDA(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.model = nn.Module()
        self.model.transformer = nn.ModuleDict(
            dict(
                wte=nn.Embedding(cfg.vocab_size, cfg.d_model),
                blocks=nn.ModuleList(Block(cfg) for _ in range(cfg.n_layers)),
                ln_f=RMSNorm(cfg.d_model, cfg.rms_norm_eps),
                ff_out=nn.Linear(cfg.d_model, cfg.vocab_size, bias=False),
            )
        )
        dim = cfg.d_model // cfg.n_heads
        freq = 1.0 / cfg.rope_theta ** (torch.arange(0, dim, 2).float() / dim)
        angle = torch.outer(torch.arange(cfg.max_sequence_length).float(), freq).repeat(1, 2)
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                std = p.shape[1] ** -0.5
                if "blocks" in name and name.split(".")[-2] in ("attn_out", "ff_out"):
                    std /= math.sqrt(2 * cfg.n_layers)
                nn.init.trunc_normal_(p, std=std, a=-3 * std, b=3 * std)

    def compile_blocks(self):
        """Compiles one block for all layers and all lengths."""
        for block in self.model.transformer.blocks:
            block.compile(dynamic=True)

    def forward(self, ids, last=None, key_mask=None, attn_layer=None):
        """Logits of the last `last` positions (all by default). With attn_layer also the attention
        probabilities of those positions in that layer, averaged over heads: [batch, last, seq]."""
        t = self.model.transformer
        T = ids.shape[1]
        rope, start, probs = (self.cos[:T], self.sin[:T]), 0 if last is None else T - last, None
        x = t.wte(ids)
        for i, block in enumerate(t.blocks):
            if i == attn_layer:
                probs = block.attention(x, rope, key_mask, start)
            x = block(x, rope, key_mask)
        h = t.ln_f(x[:, start:])
        if self.training:
            logits = t.ff_out(h)
        else:  # confidences need more than bf16
            with torch.autocast(x.device.type, enabled=False):
                logits = F.linear(h.float(), t.ff_out.weight.float())
        return logits if attn_layer is None else (logits, probs)


def save_checkpoint(state, cfg, out, shard_bytes=11_500_000):
    """bf16 safetensors (several files with an index when larger than one shard) and config.json."""
    os.makedirs(out, exist_ok=True)
    for old in os.listdir(out):
        if ".safetensors" in old:
            os.remove(f"{out}/{old}")
    state = {k: v.detach().to("cpu", torch.bfloat16).contiguous() for k, v in state.items()}
    shards, size = [{}], 0
    for k, v in state.items():
        if size + v.nbytes > shard_bytes:
            shards.append({})
            size = 0
        shards[-1][k] = v
        size += v.nbytes
    names = (
        ["model.safetensors"]
        if len(shards) == 1
        else [f"model-{i + 1:05d}-of-{len(shards):05d}.safetensors" for i in range(len(shards))]
    )
    for name, shard in zip(names, shards):
        save_file(shard, f"{out}/{name}", metadata={"format": "pt"})
        os.chmod(f"{out}/{name}", 0o644)
    if len(shards) > 1:
        index = {
            "metadata": {"total_size": sum(v.nbytes for v in state.values())},
            "weight_map": {k: name for name, shard in zip(names, shards) for k in shard},
        }
        with open(f"{out}/model.safetensors.index.json", "w") as f:
            json.dump(index, f, indent=1)
    with open(f"{out}/config.json", "w") as f:
        json.dump(cfg.to_json(), f, indent=2)


def load_checkpoint(path, device="cpu", dtype=torch.float32):
    cfg = Config.from_json(f"{path}/config.json")
    model = LLaDA(cfg)
    files = [f for f in sorted(os.listdir(path)) if f.endswith(".safetensors")]
    model.load_state_dict({k: v.float() for f in files for k, v in load_file(f"{path}/{f}").items()})
    return model.to(device, dtype).eval()
