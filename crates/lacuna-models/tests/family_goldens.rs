//! The decoders of further families on the CPU, and what keeping finished blocks promises.

mod common;

use common::family_decoding::{self, open};
use common::{data, on_cpu};
use lacuna::{Predictor, Token, decode};
use lacuna_models::Request;

#[test]
fn every_family_decodes_as_its_official_code() {
    let count = family_decoding::every_family_decodes_as_its_official_code(on_cpu, 1);
    assert!(count >= 224, "{count}");
}

#[test]
fn texts_that_begin_alike_are_computed_once() {
    for (family, strategy) in [
        ("sdar", "dos+eb"),
        ("sdar", "sdar"),
        ("llada2", "llada2.1"),
        ("fast-dllm-v2", "fast-dllm-v2"),
        ("fast-dllm-v2", "dos"),
    ] {
        let (checkpoint, mut model) = open(on_cpu, &data("families").join(family), common::MASK, false);
        let plan = Request::default().with("strategy", strategy).unwrap().with("gen_length", 16usize).unwrap();
        let plan = plan.with("block_length", 8usize).unwrap().plan(&checkpoint).unwrap();
        let run = |prompt: &[Token], model: &mut dyn Predictor| {
            let mut runs = [plan.answer(prompt, model.description()).unwrap()];
            decode(&mut runs, model).unwrap();
            let [run] = runs;
            (run.canvas().tokens().to_vec(), run.recalled(), run.rows_computed())
        };
        let system: Vec<Token> = (0..27).map(|position| position * 31 % 500).collect();
        let other = [&system[..], &[7, 8, 9]].concat();
        let (alone, none, all) = run(&other, model.as_mut());
        model.reuse_prompts(1 << 20);
        let (first, nothing, _) = run(&system, model.as_mut());
        let (again, recalled, fewer) = run(&other, model.as_mut());
        assert_eq!((none, nothing), (0, 0));
        assert_eq!(again, alone, "{family} {strategy}");
        let opens = strategy == "fast-dllm-v2";
        assert_eq!(recalled, if opens { 16 } else { 24 }, "{family} {strategy}");
        assert!(fewer < all && model.prompt_bytes() <= 1 << 20);
        // A chat goes on: the answer before is part of the prompt.
        let turn = [&first[..], &[1, 2, 3]].concat();
        let (text, recalled, _) = run(&turn, model.as_mut());
        model.reuse_prompts(0);
        assert_eq!((model.prompt_bytes(), run(&turn, model.as_mut()).0), (0, text), "{family} {strategy}");
        assert!(recalled >= 32, "{family} {strategy}: {recalled}");
    }
}

#[test]
fn finished_blocks_that_are_kept_change_no_bit() {
    let strategies =
        ["dos+eb", "dos+edit", "confidence+klass", "saber", "p2", "sdar", "bd3lm", "dsb", "hierarchy-remask"];
    family_decoding::finished_blocks_that_are_kept_change_no_bit(on_cpu, &strategies);
}
