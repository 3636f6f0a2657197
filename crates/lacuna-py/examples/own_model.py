"""A model in plain PyTorch, decoded by lacuna: `python own_model.py`.

The transformer is tiny and its weights are random, so it says nothing; it is here to show what lacuna needs of a model. For
`confidence` and its kin that is the logits, for `dos` also the attention of one layer.
"""

from typing import Any

import lacunalm as lacuna
import torch
from torch import Tensor, nn

VOCABULARY, MASK, END = 128, 127, 126
WIDTH, HEADS, LAYERS = 64, 4, 6


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])
        self.attend = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        normed = self.norms[0](x)
        # Every position sees every other: there is no causal mask in a masked diffusion model.
        attended, attention = self.attend(normed, normed, normed, average_attn_weights=False)
        x = x + attended
        return x + self.mlp(self.norms[1](x)), attention


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.place = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(256, WIDTH)
        self.blocks = nn.ModuleList([Block() for _ in range(LAYERS)])
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens: Tensor) -> tuple[Tensor, list[Tensor]]:
        x = self.embed(tokens) + self.place(torch.arange(tokens.shape[-1], device=tokens.device))
        attentions: list[Tensor] = []
        for block in self.blocks:
            x, attention = block(x)
            attentions.append(attention)
        return x, attentions


torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
model = Transformer().to(device).eval()


@torch.inference_mode()
def predict(tokens: list[int]) -> tuple[Tensor, list[Tensor]]:
    hidden, attentions = model(torch.tensor([tokens], device=device))
    return model.head(hidden), attentions  # [1, length, vocabulary], and for each layer [1, heads, length, length]


prompt = [3, 1, 4, 1, 5]
about: Any = dict(mask_token=MASK, end_tokens=[END], layers=LAYERS, gen_length=32)

for strategy in ["confidence+eb", "dos+eb"]:
    result = lacuna.decode(predict, prompt, strategy=strategy, gamma=5.0, **about)
    print(f"{strategy}: {result.nfe} forward passes, {result.rows_read} rows of logits read\n  {result.tokens}")


# The loop may be your own, and the vocabulary projection may wait until it is known which rows are needed.
run = lacuna.Run(prompt, strategy="dos+eb", layer=1, gamma=5.0, **about)
with torch.inference_mode():
    while not run.finished:
        hidden, attentions = model(torch.tensor([run.tokens], device=device))
        step = run.step(lambda rows: model.head(hidden[0, rows]), attentions[1])
        print("wrote", {commit.position: commit.token for commit in step.committed})
assert run.result.tokens == result.tokens
