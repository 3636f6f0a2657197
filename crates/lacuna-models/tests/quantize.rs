//! Checkpoints that are stored in 4 and 8 bits.

mod common;

use std::fs;

use common::{data, tiny};
use lacuna::{Predictor, Token, View};
use lacuna_models::{Checkpoint, CpuPredictor, Model, Precision};

const MODELS: [&str; 7] = [
    "llada-tiny",
    "llada-tiny-sharded",
    "dream-tiny",
    "families/open-dcoder",
    "families/stable-diffcoder",
    "families/llada-moe-alt",
    "families/llada2",
];

fn logits(checkpoint: &Checkpoint, precision: Option<Precision>) -> (Precision, Vec<f32>) {
    let mask = checkpoint.architecture().mask.unwrap_or(2);
    let mut model =
        CpuPredictor::load(&Checkpoint::open(checkpoint.name()).unwrap().with_mask_token(mask).unwrap(), precision)
            .unwrap();
    let tokens: Vec<Token> = [1, 7, mask, 9, 30, mask, 4, mask].to_vec();
    model.observe(&[View { tokens: &tokens, ..View::default() }]).unwrap();
    (model.precision(), model.logits(0).unwrap().concat())
}

fn off(found: &[f32], exact: &[f32]) -> f64 {
    let norm = |values: &mut dyn Iterator<Item = f32>| values.map(|x| f64::from(x).powi(2)).sum::<f64>().sqrt();
    norm(&mut found.iter().zip(exact).map(|(a, b)| a - b)) / norm(&mut exact.iter().copied())
}

#[test]
fn stored_is_the_same_as_quantised_when_loaded_bit_for_bit() {
    let folder = tempfile::tempdir().unwrap();
    for name in MODELS {
        let original = Checkpoint::open(data(name)).unwrap();
        let bits = (logits(&original, Some(Precision::F32)).1, original.bytes());
        for precision in [Precision::Int4, Precision::Int8] {
            let directory = folder.path().join(format!("{}-{}", name.replace('/', "-"), precision.name()));
            original.quantize(precision, &directory).unwrap();
            let stored = Checkpoint::open(&directory).unwrap();
            let (used, found) = logits(&stored, None);
            assert_eq!(used, precision, "{name}: its own precision");
            let (_, at_load) = logits(&original, Some(precision));
            assert!(found == at_load, "{name} {}: stored weights give other bits", precision.name());
            assert!(stored.bytes() < bits.1, "{name} {}: {} bytes of {}", precision.name(), stored.bytes(), bits.1);
            assert_eq!(stored.parameters(), original.parameters());
            // Experts are chosen otherwise now and then, which changes a whole row.
            if original.architecture().experts().is_none() {
                let (_, wide) = logits(&stored, Some(Precision::F32));
                let bound = if precision == Precision::Int4 { 0.4 } else { 0.06 };
                assert!(off(&wide, &bits.0) < bound, "{name} {}: {}", precision.name(), off(&wide, &bits.0));
                assert!(off(&found, &bits.0) < bound, "{name} {}: {}", precision.name(), off(&found, &bits.0));
            }
        }
    }
    let left: Vec<String> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains("partial"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_stored_model_keeps_its_tokenizer_and_notes_its_precision() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("small");
    let original = Checkpoint::embedded().unwrap();
    original.quantize(Precision::Int4, &directory).unwrap();
    let config: serde_json::Value = serde_json::from_slice(&fs::read(directory.join("config.json")).unwrap()).unwrap();
    assert_eq!(config["quantization_config"]["precision"], "int4");
    assert_eq!(config["quantization_config"]["quant_method"], "lacuna");
    let stored = Checkpoint::open(&directory).unwrap();
    let encode = |checkpoint: &Checkpoint| checkpoint.text().unwrap().encode("a b").unwrap();
    assert_eq!(encode(&stored), encode(&original));
    assert_eq!(stored.dtypes(), ["F32", "INT4", "INT8"]);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (original, directory) = (tiny("llada-tiny"), folder.path().join("small"));
    let refused =
        |checkpoint: &Checkpoint, precision| checkpoint.quantize(precision, &directory).unwrap_err().to_string();
    assert_eq!(refused(&original, Precision::Bf16), "bf16 is not a precision to store: use int4 or int8");
    original.quantize(Precision::Int4, &directory).unwrap();
    let there = format!("{} already exists: name a new directory", directory.display());
    assert_eq!(refused(&original, Precision::Int4), there);
    let stored = Checkpoint::open(&directory).unwrap();
    let again = format!("{} is already stored in int4: take the original", directory.display());
    assert_eq!(refused(&stored, Precision::Int8), again);
    let nowhere = original.quantize(Precision::Int4, &folder.path().join("no/such")).unwrap_err().to_string();
    assert!(nowhere.contains("cannot be written"), "{nowhere}");
}

#[test]
fn damaged_parts_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("small");
    tiny("llada-tiny").quantize(Precision::Int4, &directory).unwrap();
    let file = directory.join("model.safetensors");
    let mut bytes = fs::read(&file).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: serde_json::Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    let header = header.as_object().unwrap();
    let (name, groups) = header.iter().find(|(name, _)| name.ends_with(".groups")).unwrap();
    let start = 8 + length + groups["data_offsets"][0].as_u64().unwrap() as usize;
    // A scale of 16 with a zero point of 0 reaches 240.
    bytes[start] = 15;
    fs::write(&file, &bytes).unwrap();
    let refused =
        |directory| CpuPredictor::load(&Checkpoint::open(directory).unwrap(), None).err().unwrap().to_string();
    let told = refused(&directory);
    assert!(told.contains("does not fit into 8 bits") && told.contains(name.trim_end_matches(".groups")), "{told}");
}
