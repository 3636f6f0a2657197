//! The text that nvrtc compiles: the shared structs and constants, then the kernels.

use super::{
    attention, belief, experts, fp8, int4, matrices, product, projection, routing, rows, scores, structs, table,
    weights,
};

/// The kernels, in the order in which they need each other.
const KERNELS: [&str; 15] = [
    include_str!("rows.cu"),
    include_str!("fp8.cu"),
    include_str!("product.cu"),
    include_str!("tensor.cu"),
    include_str!("int4.cu"),
    include_str!("attention_tiles.cu"),
    include_str!("attention.cu"),
    include_str!("matrices.cu"),
    include_str!("scores.cu"),
    include_str!("belief.cu"),
    include_str!("truncate.cu"),
    include_str!("projection.cu"),
    include_str!("routing.cu"),
    include_str!("experts.cu"),
    include_str!("weights.cu"),
];

/// All of it.
pub(crate) fn source() -> String {
    let declarations = [
        rows::declarations(),
        fp8::declarations(),
        product::declarations(),
        int4::declarations(),
        attention::declarations(),
        matrices::declarations(),
        scores::declarations(),
        belief::declarations(),
        projection::declarations(),
        routing::declarations(),
        experts::declarations(),
        weights::declarations(),
    ];
    let constants = [
        ("ABSENT", structs::ABSENT),
        ("STRETCH", structs::to_u32(belief::STRETCH)),
        ("RULE_SCORE", scores::SCORE),
        ("RULE_ENTROPY", scores::ENTROPY),
        ("RULE_SURPRISAL", scores::SURPRISAL),
        ("RULE_SPARE_LARGEST", scores::SPARE_LARGEST),
        ("ROUND_GROWTH", structs::to_u32(scores::ROUND_GROWTH)),
        ("PRODUCT_TILE", structs::to_u32(product::TILE)),
        ("PROJECTION_TILE", structs::to_u32(projection::TILE)),
        ("INT4_STAGES", structs::to_u32(int4::STAGES)),
        ("EXPERT_ROWS", structs::to_u32(experts::ROWS)),
        ("EXPERT_BLOCKS", structs::to_u32(experts::BLOCKS)),
        ("EXPERT_SHARED", structs::to_u32(experts::SHARED[0])),
        ("EXPERT_SHARED_FP8", structs::to_u32(experts::SHARED[1])),
        ("EXPERT_SHARED_INT4", structs::to_u32(experts::SHARED[2])),
        ("MOST_EXPERTS", structs::to_u32(routing::MOST_EXPERTS)),
        ("ROUTED", structs::to_u32(routing::ROUTED)),
        ("ROUTERS", structs::to_u32(routing::ROUTERS)),
    ];
    let constants: String = constants.map(|(name, value)| format!("#define {name} {value:#x}\n")).concat();
    let common = include_str!("common.cu");
    [common, &constants, &declarations.concat(), &table::prototypes(), &KERNELS.concat()].concat()
}
