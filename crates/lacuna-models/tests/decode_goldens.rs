//! Every step of every decoder on the CPU, against the recorded ones.

mod common;

use common::decoding::{check_records, check_some};
use common::{data, on_cpu};
use lacuna_models::Checkpoint;
use safetensors::SafeTensors;
use safetensors::tensor::TensorView;

#[test]
fn official_decoders_on_llada() {
    check_records(on_cpu, 0, 1);
}

#[test]
fn reference_strategies_on_llada() {
    check_records(on_cpu, 1, 1);
}

#[test]
fn official_decoders_on_dream() {
    check_records(on_cpu, 2, 1);
}

#[test]
fn reference_strategies_on_dream() {
    check_records(on_cpu, 3, 1);
}

/// A vocabulary projection in which the mask token would win at many positions changes nothing.
#[test]
fn the_mask_token_is_never_chosen_whatever_its_logit() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(data("llada-tiny/config.json"), folder.path().join("config.json")).unwrap();
    let bytes = std::fs::read(data("llada-tiny/model.safetensors")).unwrap();
    let mut tensors = SafeTensors::deserialize(&bytes).unwrap().tensors();
    let (_, head) = tensors.iter().find(|(name, _)| name == "model.transformer.ff_out.weight").unwrap();
    let (width, mask, favourite) = (64 * 4, 511, 424);
    let mut changed = head.data().to_vec();
    for (offset, value) in head.data()[favourite * width..][..width].chunks(4).enumerate() {
        let value = 1.5 * f32::from_le_bytes(value.try_into().unwrap());
        changed[mask * width + offset * 4..][..4].copy_from_slice(&value.to_le_bytes());
    }
    let changed = TensorView::new(head.dtype(), head.shape().to_vec(), &changed).unwrap();
    tensors.retain(|(name, _)| name != "model.transformer.ff_out.weight");
    tensors.push(("model.transformer.ff_out.weight".into(), changed));
    safetensors::serialize_to_file(tensors, None, &folder.path().join("model.safetensors")).unwrap();

    let checkpoint = Checkpoint::open(folder.path()).unwrap();
    let checked = check_some(&checkpoint, on_cpu, "decode/llada-reference.jsonl", |golden| golden.prompt == 0);
    assert!(checked > 100, "{checked}");
}
