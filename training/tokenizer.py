"""The tokenizer (byte-level BPE, every digit a token of its own) and the chat template.

    python training/tokenizer.py --out models/mini

Digits stand alone so that arithmetic can be learned digit by digit. The special tokens and the
template are LLaDA's, so that whatever decodes LLaDA decodes this model.
"""

import argparse
import json
import os
import random

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
from tasks import code, words
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

BOS, EOS, HEAD, END_HEAD, EOT, MASK = SPECIAL = [
    "<|startoftext|>",
    "<|endoftext|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eot_id|>",
    "<|mdm_mask|>",
]
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'"
    " + message['content'] | trim + '<|eot_id|>' %}"
    "{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
)


def chat(prompt):
    """What the template makes of a single question."""
    return f"{BOS}{HEAD}user{END_HEAD}\n\n{prompt}{EOT}{HEAD}assistant{END_HEAD}\n\n"


class Encoder:
    """Encodes (prompt, answer) pairs in batches. The special tokens are added as ids, which is much
    faster than finding them in the text."""

    def __init__(self, folder):
        self.tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
        ids = {token: self.tokenizer.token_to_id(token) for token in SPECIAL}
        self.head = [ids[BOS], ids[HEAD], *self.plain("user"), ids[END_HEAD]]
        self.tail = [
            ids[EOT],
            ids[HEAD],
            *self.plain("assistant"),
            ids[END_HEAD],
            *self.plain("\n\n"),
        ]
        probe = "Tom has 3 apples."
        assert self.pairs([(probe, "4")])[0][0] == self.plain(chat(probe))

    def plain(self, text):
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def pairs(self, pairs):
        batch = lambda texts: [e.ids for e in self.tokenizer.encode_batch_fast(texts, add_special_tokens=False)]
        prompts, answers = batch(["\n\n" + p for p, _ in pairs]), batch([a for _, a in pairs])
        return [(self.head + p + self.tail, a) for p, a in zip(prompts, answers)]


def train_tokenizer(texts, vocabulary):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=vocabulary,
            special_tokens=SPECIAL,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    return tokenizer


def save_tokenizer(tokenizer, out):
    tokenizer.save(f"{out}/tokenizer.json")
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": BOS,
        "eos_token": EOS,
        "pad_token": EOS,
        "mask_token": MASK,
        "add_bos_token": False,
        "add_eos_token": False,
        "clean_up_tokenization_spaces": False,
        "model_max_length": 1024,
        "chat_template": CHAT_TEMPLATE,
        "added_tokens_decoder": {
            str(tokenizer.token_to_id(token)): {
                "content": token,
                "lstrip": False,
                "normalized": False,
                "rstrip": False,
                "single_word": False,
                "special": True,
            }
            for token in SPECIAL
        },
    }
    with open(f"{out}/tokenizer_config.json", "w") as file:
        json.dump(config, file, indent=2)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--vocabulary", type=int, default=2048)
    parser.add_argument("--examples", type=int, default=30000, help="of each kind")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    sample = [problem(rng) for problem in (words.problem, code.problem) for _ in range(args.examples)]
    texts = ["user", "assistant", "\n\n"] * 1000 + [text for p in sample for text in (p["prompt"], p["answer"])]
    os.makedirs(args.out, exist_ok=True)
    save_tokenizer(train_tokenizer(texts, args.vocabulary), args.out)


if __name__ == "__main__":
    main()
