//! `lacuna strategies`: what there is and how to combine it.

use anyhow::Result;

use super::print;

const TEXT: &str = "\
A strategy is <order>[+<pace>][+<revision>], or a preset. Every order goes with every pace.

Orders: which masked position comes first
  dos              the one that pays most attention to what is already there (--layer, --heads)
  confidence       the one whose best token is most probable
  entropy          the one with the least uncertain distribution
  margin           the one whose best token is furthest ahead of the second
  random           any

Paces: how many positions to fill in one step
  top1, top2, ...  always that many (top1 if no pace is given)
  eb               as many as the entropy bound allows: sum H - max H <= --gamma (EB-Sampler)
  threshold        the first, and all whose confidence reaches --threshold (Fast-dLLM)
  score-threshold  the first, and all whose score in the order reaches --threshold
  factor           as long as the n-th is confident enough for n at once: (n + 1)(1 - p) <= --factor (Fast-dLLM)
  klass            all that are confident and have kept still: --conf-threshold, --kl-threshold, --history (KLASS)
  schedule         a fixed number of --steps, spread as --schedule llada or dream does
  draft            all above --threshold, up to a share of what is masked (WINO's first half)
  adaptive         all above the mean confidence of what was committed, at least --saber-n (Saber's first half)

Revisions: which filled positions to open again
  verify           tokens that the model doubts when it does not see them: --threshold-back (WINO's second half)
  backtrack        tokens whose position has lost confidence (Saber's second half)

Presets: published methods, as their official code does it
  llada            confidence+schedule
  fast-dllm        confidence+threshold
  klass            confidence+klass
  wino             confidence+draft+verify
  saber            confidence+adaptive+backtrack

Blocks (--block-length) and sampling (--temperature, --top-p, --guidance, ...) go with all of them.";

pub(crate) fn strategies() -> Result<()> {
    print(TEXT)
}

#[cfg(test)]
mod tests {
    use super::TEXT;

    #[test]
    fn every_name_is_explained() {
        let names = lacuna::ORDERS.into_iter().chain(lacuna::PACES).chain(lacuna::REVISIONS);
        for name in names.chain(lacuna::PRESETS.map(|(preset, _)| preset)) {
            assert!(TEXT.contains(&format!("\n  {name}")), "{name}");
        }
        for (preset, parts) in lacuna::PRESETS {
            assert!(TEXT.contains(&format!("\n  {preset:<16} {parts}")), "{preset}");
        }
    }
}
