//! The decoders of further families on the CPU, and what keeping finished blocks promises.

mod common;

use common::{family_decoding, on_cpu};

#[test]
fn every_family_decodes_as_its_official_code() {
    let count = family_decoding::every_family_decodes_as_its_official_code(on_cpu, 1);
    assert!(count >= 226, "{count}");
}

#[test]
fn texts_that_begin_alike_are_computed_once() {
    family_decoding::texts_that_begin_alike_are_computed_once(on_cpu, 1);
}

#[test]
fn finished_blocks_that_are_kept_change_no_bit() {
    let strategies =
        ["dos+eb", "dos+edit", "confidence+klass", "saber", "p2", "sdar", "bd3lm", "dsb", "hierarchy-remask"];
    family_decoding::finished_blocks_that_are_kept_change_no_bit(on_cpu, &strategies);
}
