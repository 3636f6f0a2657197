"""A decoding step of `lacunalm.Run`, the model left out, against a loop that one would write in PyTorch.

python benches/decode.py [cpu|cuda] [SECONDS]      needs torch and the package

Logits [256, 126464] as LLaDA's, 248 positions masked; three tokens a step. Both sides compute in turns, and the best step of each counts.
By hand: the rows of the masked positions, softmax in f32 and maximum; for dos, the attention of all heads, averaged and summed.
"""

import statistics
import sys
import time

import lacunalm
import torch

LENGTH, VOCABULARY, PROMPT, HEADS, TOKENS, STEPS = 256, 126464, 8, 32, 3, 3
MASK = VOCABULARY - 1


def by_hand(logits, attention):
    """Steps of a sampler that someone would write: each yields once it has written its tokens."""
    tokens = torch.full((LENGTH,), MASK, device=logits.device)
    tokens[:PROMPT] = torch.arange(PROMPT, device=logits.device)
    while True:
        masked = (tokens == MASK).nonzero()[:, 0]
        if attention is None:
            confidence, best = logits[masked].float().softmax(-1).max(-1)
            chosen = confidence.topk(TOKENS).indices
            tokens[masked[chosen]] = best[chosen]
        else:
            unmasked = (tokens != MASK).nonzero()[:, 0]
            score = attention.float().mean(0)[:, unmasked].sum(-1)[masked]
            chosen = masked[score.topk(TOKENS).indices]
            tokens[chosen] = logits[chosen].float().softmax(-1).max(-1).indices
        yield tokens.tolist()


def lacuna(logits, attention, strategy):
    """The same with lacuna."""
    layers = {} if attention is None else {"layers": 32, "layer": 4}
    run = lacunalm.Run(
        range(PROMPT), mask_token=MASK, gen_length=LENGTH - PROMPT, strategy=strategy, early_stop=False, **layers
    )
    while True:
        run.step(logits, None if attention is None else {4: attention})
        yield run.tokens


def measure(sides, device, seconds):
    """Milliseconds of a step of each side: the best, and the median. The first step, in which a run is set up, does not count."""
    times = [[] for _ in sides]
    end = time.monotonic() + seconds
    while time.monotonic() < end or len(times[0]) < 3:
        for side, took in zip(sides, times):
            steps = side()
            next(steps)
            if device == "cuda":
                torch.cuda.synchronize()
            begun = time.perf_counter()
            for _ in range(STEPS):
                next(steps)
            if device == "cuda":
                torch.cuda.synchronize()
            took.append(1e3 * (time.perf_counter() - begun) / STEPS)
    return [(min(took), statistics.median(took)) for took in times]


def main():
    device = sys.argv[1] if len(sys.argv) > 1 else "cpu"
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 5.0
    torch.manual_seed(0)
    logits = torch.randn(LENGTH, VOCABULARY) * 3
    logits[:, MASK] = -100.0
    attention = torch.rand(HEADS, LENGTH, LENGTH).softmax(-1)
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name() if device == 'cuda' else torch.get_num_threads()}")
    with torch.inference_mode():
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            given, weights = logits.to(dtype).to(device), attention.to(dtype).to(device)
            for strategy, paid in (("confidence+top3", None), ("confidence+eb", None), ("dos+top3", weights)):
                hand, ours = (lambda: by_hand(given, paid)), (lambda: lacuna(given, paid, strategy))
                if "+top" in strategy and next(hand()) != next(ours()):
                    print(f"{strategy} on {dtype}: the two sides do not choose the same tokens")
                (best, middle), (own, own_middle) = measure([hand, ours], device, seconds)
                print(
                    f"{str(dtype):16} {strategy:16} by hand {best:8.3f} ms (median {middle:8.3f})"
                    f"   lacuna {own:8.3f} ms (median {own_middle:8.3f})   {own / best:6.1%}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
