//! Models of odd sizes, on the GPU and on the CPU.

use super::*;

/// A model whose sizes divide by as little as they may.
#[derive(Clone, Copy, Debug)]
pub(super) struct Odd {
    hidden: usize,
    heads: usize,
    key_value_heads: usize,
    mlp: usize,
    vocabulary: usize,
}

impl Odd {
    pub(super) const ALL: [Self; 6] = [
        Self { hidden: 66, heads: 3, key_value_heads: 1, mlp: 101, vocabulary: 131 },
        Self { hidden: 96, heads: 6, key_value_heads: 2, mlp: 56, vocabulary: 5001 },
        Self { hidden: 160, heads: 2, key_value_heads: 2, mlp: 72, vocabulary: 300 },
        // Its tables travel to the GPU in two pieces.
        Self { hidden: 256, heads: 1, key_value_heads: 1, mlp: 40, vocabulary: 20_011 },
        Self { hidden: 256, heads: 2, key_value_heads: 1, mlp: 200, vocabulary: 1000 },
        Self { hidden: 192, heads: 3, key_value_heads: 3, mlp: 104, vocabulary: 4097 },
    ];

    /// Dream's kind, so that there are biases, groups of heads and a shift.
    pub(super) fn checkpoint(self) -> (tempfile::TempDir, Checkpoint) {
        let Self { hidden, heads, key_value_heads, mlp, vocabulary } = self;
        let folder = tempfile::tempdir().unwrap();
        let config = serde_json::json!({
            "model_type": "Dream", "hidden_size": hidden, "num_hidden_layers": 2, "num_attention_heads": heads,
            "num_key_value_heads": key_value_heads, "intermediate_size": mlp, "vocab_size": vocabulary,
            "max_position_embeddings": 4096, "rope_theta": 10000.0, "mask_token_id": 3, "rms_norm_eps": 1e-6,
        });
        std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
        let key = hidden / heads * key_value_heads;
        let mut tensors: BTreeMap<String, (Vec<usize>, Vec<u8>)> = BTreeMap::new();
        let mut add = |name: String, shape: &[usize]| {
            let length: usize = shape.iter().product();
            let seed = name.bytes().fold(7u32, |seed, byte| seed.wrapping_mul(31).wrapping_add(byte.into()));
            let noise = |i: usize| {
                let x = (i as u32).wrapping_add(seed).wrapping_mul(0x9E37_79B9);
                ((x ^ (x >> 15)).wrapping_mul(0x85EB_CA6B) >> 8) as f32 / (1 << 23) as f32 - 1.0
            };
            let (mean, reach) = match shape {
                [_, k] => (0.0, (3.0 / *k as f32).sqrt()),
                _ if name.ends_with("bias") => (0.0, 0.2),
                _ => (1.0, 0.1),
            };
            let bytes = (0..length).flat_map(|i| (mean + reach * noise(i)).to_le_bytes()).collect();
            tensors.insert(name, (shape.to_vec(), bytes));
        };
        add("model.embed_tokens.weight".into(), &[vocabulary, hidden]);
        add("lm_head.weight".into(), &[vocabulary, hidden]);
        add("model.norm.weight".into(), &[hidden]);
        for layer in 0..2 {
            let name = |part: &str| format!("model.layers.{layer}.{part}");
            for (part, rows, k) in [
                ("self_attn.q_proj", hidden, hidden),
                ("self_attn.k_proj", key, hidden),
                ("self_attn.v_proj", key, hidden),
                ("self_attn.o_proj", hidden, hidden),
                ("mlp.gate_proj", mlp, hidden),
                ("mlp.up_proj", mlp, hidden),
                ("mlp.down_proj", hidden, mlp),
            ] {
                add(name(&format!("{part}.weight")), &[rows, k]);
                if ["q_proj", "k_proj", "v_proj"].iter().any(|biased| part.ends_with(biased)) {
                    add(name(&format!("{part}.bias")), &[rows]);
                }
            }
            add(name("input_layernorm.weight"), &[hidden]);
            add(name("post_attention_layernorm.weight"), &[hidden]);
        }
        let views = tensors
            .iter()
            .map(|(name, (shape, bytes))| (name.clone(), TensorView::new(Dtype::F32, shape.clone(), bytes).unwrap()));
        safetensors::serialize_to_file(views, None, &folder.path().join("model.safetensors")).unwrap();
        let checkpoint = Checkpoint::open(folder.path()).unwrap();
        (folder, checkpoint)
    }
}

/// The logits, scores and beliefs of a canvas are those of the CPU.
pub(super) fn assert_alike(odd: Odd, cpu: &mut dyn Model, gpu: &mut dyn Model, length: usize, logit: f64, score: f32) {
    let tokens: Vec<Token> = (0..length).map(|i| if i % 3 == 0 { 3 } else { (i * 7 % 100) as Token }).collect();
    let attention: Vec<_> = (0..2).map(|layer| lacuna::AttentionSource { layer, heads: Vec::new() }).collect();
    let view = View { tokens: &tokens, attention: &attention, ..View::default() };
    let (exact, found) = (cpu.observe(&[view]).unwrap().remove(0), gpu.observe(&[view]).unwrap().remove(0));
    let error = distance(&found.dependency.concat(), &exact.dependency.concat());
    assert!(error < score, "{odd:?} at {length}: scores are off by {error:e}");
    let error = relative(&gpu.logits(0).unwrap().concat(), &cpu.logits(0).unwrap().concat());
    assert!(error < logit, "{odd:?} at {length}: logits are off by {error:e} of their norm");
    if gpu.precision() == Precision::F32 {
        // Everything, few tokens, and one alone, which may be deferred.
        let vocabulary = gpu.description().vocabulary;
        let all = TokenSet::all_but(vocabulary, &[3, 0]);
        let words = |keep: fn(usize) -> u32| -> Arc<[u32]> {
            all.words().iter().enumerate().map(|(at, word)| word & keep(at)).collect()
        };
        let sets =
            [all.clone(), words(|at| 0x8000_0012 << (at % 3)).into(), words(|at| u32::from(at == 0) << 1).into()];
        let allowed = |at: usize| &sets[at % sets.len()];
        let sampling = Sampling::default();
        let rows: Vec<Row<'_>> = (0..length)
            .map(|at| Row { scored_token: Some(5), allowed: allowed(at), ..row(0, Target::Position(at), &sampling) })
            .collect();
        for (found, exact) in gpu.read(&rows).unwrap().iter().zip(cpu.read(&rows).unwrap()) {
            assert_belief(found, &exact, 2e-4);
        }
        // More tokens than the GPU searches at once.
        for (top_p, top_k, deferred) in
            [(0.999, 0, 1), (0.5, 0, 1), (0.9, 3000, 1), (1.0, 130, 1), (1.0, 1, 0), (1e-9, 0, 0)]
        {
            let choice = TokenRule::Nucleus { temperature: 0.8, top_p, top_k };
            let sampling = Sampling { rule: choice, deferred: vec![1; deferred] };
            let row = |at| Row { allowed: allowed(at), ..row(0, Target::Position(at), &sampling) };
            let rows: Vec<Row<'_>> = (0..length).step_by(5).map(row).collect();
            for (found, exact) in gpu.read(&rows).unwrap().iter().zip(cpu.read(&rows).unwrap()) {
                assert_belief(found, &exact, 2e-3);
            }
        }
    }
}

pub(super) fn assert_belief(found: &Belief, exact: &Belief, tolerance: f64) {
    let close = |found: f64, exact: f64| (found - exact).abs() <= tolerance * exact.abs().max(1e-3);
    let same = found.token == exact.token
        && close(found.probability, exact.probability)
        && close(found.first, exact.first)
        && close(found.second, exact.second)
        && close(found.entropy, exact.entropy)
        && close(found.scored.unwrap_or(0.0), exact.scored.unwrap_or(0.0));
    assert!(same, "{found:?} is not {exact:?}");
}
