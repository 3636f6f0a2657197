//! The model that is part of the program.

use lacuna::{Predictor, View};
use lacuna_models::{Checkpoint, CpuPredictor, Model, Precision, Specials};

#[test]
fn the_embedded_model_loads_talks_and_predicts() {
    let checkpoint = Checkpoint::embedded().unwrap();
    let text = checkpoint.text().unwrap();
    let prompt = text.chat(&[("user", "What is 2 + 3?")]).unwrap();
    assert!(text.decode(&prompt, Specials::Skip).unwrap().contains("What is 2 + 3?"));
    assert_eq!(checkpoint.ends().len(), 2);

    let mut model = CpuPredictor::load(&checkpoint, None).unwrap();
    assert_eq!(model.precision(), Precision::Bf16);
    let mask = model.description().mask;
    assert_eq!(text.decode(&[mask], Specials::Skip).unwrap(), "");
    let tokens: Vec<u32> = prompt.iter().copied().chain([mask; 16]).collect();
    model.observe(&[View { tokens: &tokens, ..View::default() }]).unwrap();
    assert_eq!(model.logits(0).unwrap().len(), tokens.len());
}

#[test]
fn every_text_survives_the_embedded_tokenizer() {
    let checkpoint = Checkpoint::embedded().unwrap();
    let text = checkpoint.text().unwrap();
    for sample in ["", "Hello, world!", "  12 + 345 =\n\n\t7", "naïve 日本語 🦀", "def f(x):\n    return x * 2\n"]
    {
        let tokens = text.encode(sample).unwrap();
        assert_eq!(text.decode(&tokens, Specials::Keep).unwrap(), sample);
        assert!(tokens.iter().all(|&token| (token as usize) < checkpoint.architecture().vocabulary));
    }
}
