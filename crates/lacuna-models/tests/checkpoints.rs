//! Checkpoints: what loads, and in which words the rest is refused.

mod common;

use common::altered::{Altered, Parts};
use common::{all_layers, data, distance, goldens, view};
use lacuna::{AttentionSource, Predictor, Token, TokenRule, View};
use lacuna_models::{Architecture, Checkpoint, Convention, CpuPredictor, FeedForward, Model, Precision, Request};
use safetensors::Dtype;
use serde_json::{Value, json};

const QUERY: &str = "model.transformer.blocks.1.q_proj.weight";

fn described(altered: &Altered) -> Architecture {
    Checkpoint::open(altered.path()).unwrap().architecture().clone()
}

fn llada() -> Altered {
    Altered::copy("llada-tiny")
}

#[test]
fn what_a_checkpoint_says_of_itself() {
    let llada = Checkpoint::open(data("llada-tiny")).unwrap();
    let architecture = llada.architecture();
    assert_eq!((architecture.family.name(), architecture.family.convention()), ("LLaDA", Convention::Llada));
    assert_eq!((architecture.layers(), architecture.hidden, architecture.mlp()), (4, 64, 176));
    assert_eq!((architecture.mask, architecture.end), (Some(511), Some(509)));
    assert!(!architecture.shifted && !architecture.attention.biased && !architecture.tied);
    assert_eq!(llada.ends(), [509]);
    assert_eq!(llada.dtypes(), ["F32"]);

    let dream = Checkpoint::open(data("dream-tiny")).unwrap();
    let architecture = dream.architecture();
    assert_eq!((architecture.family.name(), architecture.family.convention()), ("Dream", Convention::Dream));
    assert_eq!((architecture.attention.heads, architecture.attention.key_value_heads), (4, 2));
    assert!(architecture.shifted && architecture.attention.biased);
}

#[test]
fn sixteen_bit_checkpoints_load_and_stay_sixteen_bit() {
    for name in ["llada-tiny", "dream-tiny"] {
        for (dtype, tolerance) in [(Dtype::F16, 0.02), (Dtype::BF16, 0.1)] {
            let altered = Altered::copy(name).convert(dtype);
            assert_eq!(altered.load().unwrap().precision(), Precision::Bf16);
            let checkpoint = Checkpoint::open(altered.path()).unwrap();
            let mut model = CpuPredictor::load(&checkpoint, Some(Precision::F32)).unwrap();
            let golden = goldens(name).remove(1);
            model.observe(&[view(&golden.tokens)]).unwrap();
            let error = distance(&model.logits(0).unwrap().concat(), &golden.logits);
            let largest = golden.logits.iter().fold(0.0, |largest: f32, logit| largest.max(logit.abs()));
            assert!(error < tolerance * largest, "{name} {dtype:?}: off by {error} of {largest}");
        }
    }
}

#[test]
fn the_attention_of_a_position_sums_to_its_dependency_score() {
    for name in ["llada-tiny", "dream-tiny"] {
        let mut model = CpuPredictor::load(&Checkpoint::open(data(name)).unwrap(), None).unwrap();
        let mask = model.description().mask;
        let tokens: Vec<Token> = (1..30).map(|index| if index % 3 == 0 { mask } else { index }).collect();
        let last = model.description().layers - 1;
        let sources = [AttentionSource { layer: 0, heads: vec![] }, AttentionSource { layer: last, heads: vec![1] }];
        let seen = model.observe(&[View { attention: &sources, ..view(&tokens) }]).unwrap().remove(0);
        for position in (2..tokens.len()).step_by(3) {
            let paid = model.attention(&tokens, position, &sources).unwrap().unwrap();
            assert!((paid.iter().sum::<f32>() - 1.0).abs() < 1e-4, "{name}: all of it is 1");
            let there = paid.iter().zip(&tokens).filter(|(_, token)| **token != mask).map(|(paid, _)| paid);
            let mean = seen.dependency.iter().map(|scores| scores[position]).sum::<f32>() / sources.len() as f32;
            assert!((there.sum::<f32>() - mean).abs() < 1e-4, "{name}, position {position}");
        }
        assert!(model.attention(&tokens, tokens.len(), &sources).is_err());
    }
}

#[test]
fn tied_weights_are_the_embedding() {
    const EMBEDDING: &str = "model.transformer.wte.weight";
    const HEAD: &str = "model.transformer.ff_out.weight";
    let copied = llada().tensors(|tensors| {
        let embedding = tensors[EMBEDDING].bytes.clone();
        tensors.get_mut(HEAD).unwrap().bytes = embedding;
    });
    let tied = llada().set("weight_tying", true).tensors(|tensors| drop(tensors.remove(HEAD)));
    let golden = goldens("llada-tiny").remove(0);
    let logits = |altered: Altered| {
        let mut model = altered.load().unwrap();
        model.observe(&[view(&golden.tokens)]).unwrap();
        model.logits(0).unwrap()
    };
    assert_eq!(logits(copied), logits(tied));
}

#[test]
fn embedded_files_are_a_checkpoint_like_any_other() {
    let leak = |name: &'static str| -> (&'static str, &'static [u8]) {
        (name, std::fs::read(data("llada-tiny-sharded").join(name)).unwrap().leak())
    };
    let files = [
        "config.json",
        "model.safetensors.index.json",
        "model-00001-of-00003.safetensors",
        "model-00002-of-00003.safetensors",
        "model-00003-of-00003.safetensors",
    ];
    let checkpoint = Checkpoint::from_static(files.map(leak).to_vec().leak()).unwrap();
    let mut model = CpuPredictor::load(&checkpoint, None).unwrap();
    let (golden, attention) = (goldens("llada-tiny").remove(0), all_layers());
    model.observe(&[View { attention: &attention, ..view(&golden.tokens) }]).unwrap();
    assert!(distance(&model.logits(0).unwrap().concat(), &golden.logits) < 2e-4);
    assert_eq!(
        checkpoint.text().err().unwrap().to_string(),
        "the embedded model has no tokenizer (neither tokenizer.json nor vocab.json with merges.txt): \
         add one, or use raw token ids"
    );
}

#[test]
fn a_checkpoint_may_recommend_how_to_decode_it() {
    assert_eq!(Checkpoint::open(data("llada-tiny")).unwrap().recommended(), &Default::default());
    let open = |value: Value| Checkpoint::open(llada().set("lacuna", value).path());
    let recommended = open(json!({"strategy": "dos+eb", "layer": 2, "gamma": 0.1, "gen_length": 64})).unwrap();
    let recommended = recommended.recommended();
    assert_eq!(recommended.word("strategy"), Some("dos+eb"));
    assert_eq!((recommended.integers("layer"), recommended.number("gamma")), (Some(vec![2]), Some(0.1)));
    assert_eq!((recommended.integer("gen_length"), recommended.integer("block_length")), (Some(64), None));
    assert_eq!(open(json!({"layer": [0, 3]})).unwrap().recommended().integers("layer"), Some(vec![0, 3]));
    let refused = llada().set("lacuna", json!({"layer": 4})).refusal();
    assert_eq!(refused, "config.json: lacuna.layer is 4, but the model has layers 0 to 3");
}

#[test]
fn a_mask_that_nobody_names_must_be_given() {
    for name in ["llada-tiny", "dream-tiny"] {
        let unnamed = Altered::copy(name).edit("config.json", |config| drop(config.remove("mask_token_id")));
        assert_eq!(unnamed.refusal(), "config.json does not name the model's mask token: give mask_token");
        let given = |id| Checkpoint::open(unnamed.path()).unwrap().with_mask_token(id);
        let checkpoint = given(511).unwrap();
        assert_eq!((checkpoint.architecture().mask, checkpoint.mask_token().unwrap()), (Some(511), 511));
        assert!(CpuPredictor::load(&checkpoint, None).is_ok());
        let refused = given(512).unwrap_err().to_string();
        assert_eq!(refused, "mask token 512 is outside the vocabulary, which has ids 0 to 511");
    }
    // Published checkpoints that do not name theirs are known by the size of their vocabulary.
    let published = |name: &'static str, size: usize| {
        let config = Altered::copy(name).edit("config.json", |config| drop(config.remove("mask_token_id")));
        let config = config.set("vocab_size", size).edit("config.json", |config| drop(config.remove("embedding_size")));
        let content = std::fs::read(config.path().join("config.json")).unwrap().leak();
        let error = Checkpoint::from_static(vec![("config.json", &*content)].leak()).unwrap_err();
        assert!(error.to_string().starts_with("model.safetensors"), "{error}");
    };
    published("llada-tiny", 126_464);
    published("dream-tiny", 152_064);
}

#[test]
fn missing_and_damaged_files_are_named() {
    let error = Checkpoint::open("/nowhere/at/all").unwrap_err().to_string();
    assert!(
        error.starts_with(
            "/nowhere/at/all is neither a directory nor a .gguf file: a model is a folder with config.json"
        ),
        "{error}"
    );
    assert!(Checkpoint::open(data("llada-tiny/config.json")).is_err());

    assert!(llada().remove("config.json").refusal().starts_with("config.json does not exist: "));
    assert!(llada().remove("model.safetensors").refusal().starts_with("model.safetensors does not exist: "));
    for keep in [0, 5, 40, 3000, 500_000] {
        let refused = llada().truncate("model.safetensors", keep).refusal();
        assert!(refused.starts_with("model.safetensors cannot be read as a file of weights ("), "{refused}");
    }
    let refused = llada().write("model.safetensors", [0xA5; 10_000]).refusal();
    assert!(refused.starts_with("model.safetensors cannot be read as a file of weights ("), "{refused}");
    let refused = llada().write("config.json", "{\n  \"model_type\": \"llada\",\n  oops\n}").refusal();
    assert_eq!(refused, "config.json is not as expected: key must be a string at line 3 column 3");
    let refused = llada().set("n_heads", "four").refusal();
    assert_eq!(
        refused,
        "config.json is not as expected: n_heads is \"four\", but it must be a whole number, 0 or more"
    );
    assert_eq!(
        llada().write("config.json", "[]").refusal(),
        "config.json is not as expected: it is a list, but it must be an object"
    );
    let refused = llada().edit("config.json", |config| drop(config.remove("d_model"))).refusal();
    assert!(refused.starts_with("config.json is not as expected: the field 'd_model' is missing"), "{refused}");
}

#[test]
fn an_index_must_describe_what_is_there() {
    const INDEX: &str = "model.safetensors.index.json";
    const SHARD: &str = "model-00002-of-00003.safetensors";
    let sharded = || Altered::copy("llada-tiny-sharded");
    let refused = sharded().remove(SHARD).refusal();
    assert!(refused.starts_with("model.safetensors.index.json says that tensor model.transformer."), "{refused}");
    assert!(refused.contains(&format!("is in {SHARD}, but that file does not exist")), "{refused}");

    let point = |tensor: &str, shard: &str| {
        let altered = sharded();
        altered
            .edit(INDEX, |index| drop(index["weight_map"].as_object_mut().unwrap().insert(tensor.into(), shard.into())))
    };
    let refused = point("model.transformer.extra.weight", SHARD).refusal();
    let expected = "model.safetensors.index.json says that tensor model.transformer.extra.weight is in \
                    model-00002-of-00003.safetensors, but that file has no such tensor; fetch the checkpoint again";
    assert_eq!(refused, expected);
    assert!(point(QUERY, "../other.safetensors").refusal().contains("not the name of a file beside it"));
    let refused =
        sharded().edit(INDEX, |index| drop(index["weight_map"].as_object_mut().unwrap().remove(QUERY))).refusal();
    assert!(refused.starts_with(&format!("{INDEX} has no tensor {QUERY}")), "{refused}");
    assert!(sharded().write(INDEX, "[]").refusal().starts_with(&format!("{INDEX} is not as expected")));
    assert!(sharded().truncate(SHARD, 1000).refusal().starts_with(SHARD));
}

#[test]
fn tensors_must_fit_the_configuration() {
    let refused = llada().tensors(|tensors| drop(tensors.remove(QUERY))).refusal();
    assert!(refused.starts_with(&format!("model.safetensors has no tensor {QUERY}: ")), "{refused}");
    let refused = llada().tensor(QUERY, |parts| parts.shape = vec![32, 128]).refusal();
    let expected = "in model.safetensors has shape [32, 128], but by config.json it must be [64, 64]";
    assert_eq!(refused, format!("tensor {QUERY} {expected}"));
    let refused = llada().tensor(QUERY, |parts| parts.dtype = Dtype::I32).refusal();
    assert_eq!(
        refused,
        format!(
            "tensor {QUERY} in model.safetensors is of type I32, but lacuna reads F32, F16, BF16 and what `lacuna quantize` writes"
        )
    );
    let refused = Altered::copy("dream-tiny").tensors(|tensors| {
        tensors.remove("model.layers.2.self_attn.v_proj.bias");
    });
    assert!(refused.refusal().starts_with("model.safetensors has no tensor model.layers.2.self_attn.v_proj.bias"));
}

#[test]
fn tensors_that_config_json_does_not_describe_are_refused() {
    for layers in 1..4 {
        let refused = llada().set("n_layers", layers).refusal();
        let first = format!("model.transformer.blocks.{layers}.attn_norm.weight");
        let expected = format!(
            "model.safetensors has tensors that config.json does not describe ({first}; {} in all): \
             one of the two belongs to another model",
            (4 - layers) * 9
        );
        assert_eq!(refused, expected);
    }
    let refused = llada().set("weight_tying", true).refusal();
    assert_eq!(
        refused,
        "model.safetensors has model.transformer.ff_out.weight with other weights than the embedding, but by config.json \
         the two are tied"
    );
    // A copy of the embedding contradicts nothing, and older files have tables that are computed today.
    let harmless = llada().set("weight_tying", true).tensors(|tensors| {
        let copy = tensors["model.transformer.wte.weight"].bytes.clone();
        tensors.get_mut("model.transformer.ff_out.weight").unwrap().bytes = copy.clone();
        let table = Parts { dtype: Dtype::F32, shape: vec![8], bytes: copy[..32].to_vec() };
        tensors.insert("model.transformer.rotary_emb.inv_freq".to_string(), table);
    });
    assert!(harmless.load().is_ok());
}

#[test]
fn recommendations_must_be_known_and_possible() {
    for (value, expected) in [
        (json!({"nonsense": 1}), "nonsense"),
        (json!({"temperature": -3}), "temperature is -3"),
        (json!({"gamma": -1.0}), "gamma is -1"),
        (json!({"gen_length": 0}), "gen_length is 0"),
        (json!({"gamma": "much"}), "gamma is the text 'much'"),
    ] {
        let refused = llada().set("lacuna", value).refusal();
        assert!(refused.contains(expected), "{refused}");
    }
}

#[cfg(unix)]
#[test]
fn only_regular_files_are_opened() {
    for name in ["config.json", "model.safetensors"] {
        let altered = llada().remove(name);
        let path = altered.path().join(name);
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert_eq!(altered.refusal(), format!("{name} is not a regular file"));
    }
}

#[test]
fn weights_that_are_not_finite_are_found_wherever_they_are() {
    let tensors = [
        QUERY,
        "model.transformer.wte.weight",
        "model.transformer.ln_f.weight",
        "model.transformer.ff_out.weight",
        "model.transformer.blocks.3.ff_out.weight",
    ];
    for (tensor, value) in
        tensors.into_iter().zip([f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::INFINITY])
    {
        let altered = llada().tensor(tensor, |parts| parts.bytes[4 * 61..4 * 62].copy_from_slice(&value.to_le_bytes()));
        let expected =
            format!("tensor {tensor} in model.safetensors has {value} at element 61: the weights are damaged");
        assert_eq!(altered.refusal(), expected);
    }
    for dtype in [Dtype::F16, Dtype::BF16] {
        let altered = llada().convert(dtype).tensor("model.transformer.wte.weight", |parts| {
            parts.bytes[20_000..20_002].copy_from_slice(&0x7FFFu16.to_le_bytes());
        });
        assert!(altered.refusal().contains("has NaN at element 10000"), "{}", altered.refusal());
    }
}

#[test]
fn variants_that_are_not_implemented_are_refused() {
    let cases = [
        ("alibi", json!(true), "true", "false"),
        ("rope", json!(false), "false", "true"),
        ("layer_norm_type", json!("default"), "'default'", "rms"),
        ("include_bias", json!(true), "true", "false"),
        ("block_group_size", json!(2), "2", "1"),
        ("multi_query_attention", json!(true), "true", "false"),
        ("attention_layer_norm", json!(true), "true", "false"),
        ("scale_logits", json!(true), "true", "false"),
        ("input_emb_norm", json!(true), "true", "false"),
        ("activation_type", json!("gelu"), "'gelu'", "silu"),
        ("block_type", json!("sequential"), "'sequential'", "llama"),
    ];
    for (key, value, shown, supported) in cases {
        let expected = format!("config.json: {key} is {shown}, which is not supported; it must be {supported}");
        assert_eq!(llada().set(key, value).refusal(), expected);
    }
    let dream = |key: &str, value: Value| Altered::copy("dream-tiny").set(key, value).refusal();
    assert!(
        dream("hidden_act", json!("gelu")).starts_with("config.json: hidden_act is 'gelu', which is not supported")
    );
    assert!(dream("rope_scaling", json!({"type": "yarn"})).contains("it must be null"));
    assert!(dream("use_sliding_window", json!(true)).contains("it must be false"));
    let of = |architecture: &str, model_type: &str| {
        llada().set("architectures", json!([architecture])).set("model_type", model_type)
    };
    let refused = of("GPT2LMHeadModel", "gpt2").refusal();
    assert!(refused.starts_with("config.json: model_type 'gpt2' is not supported; the supported families are LLaDA, "));
    assert!(of("LLaDAModelLM", "another").load().is_ok(), "the architecture goes before the model type");
    let unnamed = llada().edit("config.json", |config| drop(config.remove("architectures")));
    assert!(unnamed.load().is_ok(), "the model type alone is enough");
    let refused = unnamed.edit("config.json", |config| drop(config.remove("model_type"))).refusal();
    assert!(refused.starts_with("config.json: model_type '' is not supported"), "{refused}");
    let refused = of("NemotronLabsDiffusionModel", "nemotron_labs_diffusion").refusal();
    assert_eq!(
        refused,
        "config.json: Nemotron-Labs-Diffusion is not supported yet: it needs causal attention to finished blocks"
    );
    // The one name is enough, even beside a model type that is supported.
    for (architecture, model_type, family) in [
        ("NemotronLabsDiffusionModel", "another", "Nemotron-Labs-Diffusion"),
        ("WeDLMForCausalLM", "qwen2", "WeDLM"),
        ("TiDARForCausalLM", "qwen2", "TiDAR"),
        ("LlavaLLaDAModelLM", "llada", "LLaDA-V"),
        ("another", "diffusion_gemma", "DiffusionGemma"),
        ("LLaDA2_2MoeModelLM", "llada2_moe", "LLaDA2.2"),
    ] {
        let refused = of(architecture, model_type).refusal();
        assert!(refused.starts_with(&format!("config.json: {family} is not supported yet")), "{refused}");
    }
}

#[test]
fn sizes_that_cannot_be_are_refused() {
    for key in
        ["n_layers", "d_model", "n_heads", "n_kv_heads", "mlp_hidden_size", "embedding_size", "max_sequence_length"]
    {
        let refused = llada().set(key, 0).refusal();
        assert!(refused.ends_with("is 0, but it must be at least 1"), "{key}: {refused}");
    }
    assert!(llada().set("n_heads", 5).refusal().contains("must be an even multiple of the 5 heads"));
    assert!(llada().set("n_heads", 64).refusal().contains("must be an even multiple of the 64 heads"));
    assert!(llada().set("n_kv_heads", 3).refusal().contains("it must divide the 4 heads"));
    assert!(llada().set("mask_token_id", 512).refusal().contains("mask_token_id is 512"));
    assert!(llada().set("rope_theta", 0).refusal().contains("rope_theta is 0"));
    assert!(llada().set("rms_norm_eps", -1.0).refusal().contains("rms_norm_eps is -1"));
    assert!(llada().set("n_layers", -1).refusal().contains("n_layers is -1, but it must be a whole number"));
    assert!(llada().set("n_layers", 5).refusal().contains("has no tensor model.transformer.blocks.4."));
    assert!(llada().set("n_layers", 1u64 << 60).refusal().contains("it must be at most 4096"));
    assert!(llada().set("d_model", 1u64 << 60).refusal().contains("it must be at most 16777216"));
    for (key, value) in [("rope_theta", 0.5), ("rope_theta", 1e308), ("rms_norm_eps", 1.0), ("rms_norm_eps", 1e308)] {
        let refused = llada().set(key, value).refusal();
        assert!(refused.starts_with(&format!("config.json: {key} is ")), "{refused}");
    }
    for size in [0, 513, u64::MAX] {
        let refused = llada().set("vocab_size", size).refusal();
        assert_eq!(
            refused,
            format!("config.json: vocab_size is {size}, but it must be at least 1 and at most embedding_size, 512")
        );
    }
}

/// Whatever is wrong with a checkpoint of a family is said in one line that names the file and no Rust types.
#[test]
fn damaged_checkpoints_of_every_family_are_refused_in_plain_words() {
    const FAMILIES: [&str; 9] = [
        "a2d-qwen3",
        "fast-dllm-v2",
        "illada",
        "llada-moe-alt",
        "llada2",
        "open-dcoder",
        "rnd1",
        "sdar",
        "stable-diffcoder",
    ];
    /// Keys of which one or the other tells a size, in every family.
    const SIZES: [&str; 8] = [
        "hidden_size",
        "d_model",
        "num_hidden_layers",
        "n_layers",
        "num_attention_heads",
        "n_heads",
        "num_experts",
        "vocab_size",
    ];
    let words =
        ["usize", "u32", "f64", "struct", "sequence", "invalid type", "Option", "Some(", "expected `", "field `"];
    let mut count = 0;
    for family in FAMILIES {
        let name = format!("families/{family}");
        let config: Value = serde_json::from_slice(&std::fs::read(data(&name).join("config.json")).unwrap()).unwrap();
        let vocabulary = config["vocab_size"].as_u64().unwrap();
        let intact = || Altered::copy(&name).set("mask_token_id", vocabulary - 1);
        intact().load().unwrap();
        let mut refuse = |damage: &str, altered: Altered| {
            let refused = altered.refusal();
            count += 1;
            let plain = words.iter().all(|word| !refused.contains(word));
            assert!(
                plain && refused.contains(".json") | refused.contains("safetensors"),
                "{family}, {damage}: {refused}"
            );
        };
        for key in SIZES.into_iter().filter(|key| config[key].is_u64()) {
            let size = config[key].as_u64().unwrap();
            for value in [json!(null), json!(-1), json!(1.5), json!("many"), json!([4]), json!(0), json!(size + 1)] {
                refuse(&format!("{key} = {value}"), intact().set(key, value));
            }
        }
        for (key, value) in [
            ("mask_token_id", json!(vocabulary)),
            ("mask_token_id", json!("4")),
            ("eos_token_id", json!(1 << 20)),
            ("rope_theta", json!(0)),
            ("architectures", json!("LLaDA")),
            ("lacuna", json!({"temperature": "hot"})),
        ] {
            refuse(key, intact().set(key, value));
        }
        for content in ["", "{", "[]", "3"] {
            refuse("config.json", intact().write("config.json", content));
        }
        let size = std::fs::metadata(data(&name).join("model.safetensors")).unwrap().len() as usize;
        for keep in [0, 4, 100, size / 2, size - 1] {
            refuse("truncated", intact().truncate("model.safetensors", keep));
        }
        let mut names = Vec::new();
        intact().tensors(|tensors| names.extend(tensors.keys().cloned()));
        let kinds = [".mlp.gate.", ".experts.1.", "norm", "q_proj", "embed"];
        for tensor in kinds.iter().filter_map(|kind| names.iter().rfind(|name| name.contains(kind))) {
            refuse("missing tensor", intact().tensors(|tensors| drop(tensors.remove(tensor))));
            refuse("wrong shape", intact().tensor(tensor, |parts| parts.shape.insert(0, 1)));
            refuse("wrong dtype", intact().tensor(tensor, |parts| parts.dtype = Dtype::I32));
        }
    }
    assert!(count >= 30 * FAMILIES.len(), "{count}");
}

#[test]
fn settings_of_experts_that_make_no_sense_are_refused() {
    for (family, key, value, expected) in [
        ("llada2", "routed_scaling_factor", json!(0), "routed_scaling_factor is 0"),
        ("llada2", "routed_scaling_factor", json!(-2.5), "routed_scaling_factor is -2.5"),
        ("llada2", "n_group", json!(3), "must divide into groups"),
        ("llada2", "num_experts_per_tok", json!(17), "experts per token"),
        ("llada-moe-alt", "moe_layer_freq", json!([1]), "one for each of the 2 layers"),
        ("rnd1", "is_causal", json!(true), "is_causal"),
    ] {
        let altered = Altered::copy(&format!("families/{family}")).set("mask_token_id", 511).set(key, value);
        let refused = altered.refusal();
        assert!(refused.contains(expected), "{family}: {refused}");
    }
}

#[test]
fn a_single_expert_of_llada2_keeps_its_own_weight() {
    for (active, renormalized) in [(1, false), (2, true)] {
        let layer = described(&Altered::copy("families/llada2").set("num_experts_per_tok", active)).feed_forward[1];
        assert!(matches!(layer, FeedForward::Experts(experts) if experts.router.renormalized == renormalized));
    }
}

/// Where config.json leaves a key out, the value is that of the family's configuration class.
#[test]
fn keys_that_are_left_out_have_the_value_of_the_official_class() {
    let altered = |family: &str| Altered::copy(&format!("families/{family}"));
    for (family, key, value) in [
        ("llada2", "partial_rotary_factor", json!(0.5)),
        ("llada2", "rms_norm_eps", json!(1e-5)),
        ("llada2", "routed_scaling_factor", json!(2.5)),
        ("llada2", "n_group", json!(8)),
        ("llada2", "topk_group", json!(4)),
        ("llada-moe-alt", "rms_norm_eps", json!(1e-5)),
        ("rnd1", "norm_topk_prob", json!(true)),
        ("rnd1", "rope_theta", json!(1e6)),
        ("sdar", "rope_theta", json!(1e4)),
    ] {
        let named = altered(family).set(key, value);
        let left_out = altered(family).edit("config.json", |config| drop(config.remove(key)));
        assert!(described(&named) == described(&left_out), "{family}: {key}");
    }
    let refused = altered("llada-moe-alt").edit("config.json", |config| drop(config.remove("rope_theta"))).refusal();
    assert!(refused.contains("the field 'rope_theta' is missing"), "{refused}");
}

#[test]
fn the_rotary_embedding_may_be_described_as_transformers_5_does() {
    let family = |name: &str, parameters: Value| {
        let unnamed = Altered::copy(name).edit("config.json", |config| drop(config.remove("rope_theta")));
        unnamed.set("rope_parameters", parameters)
    };
    let sdar = |parameters: Value| family("families/sdar", parameters);
    let theta = |altered: Altered| described(&altered).attention.rope_theta;
    let plain = json!({"rope_type": "default", "rope_theta": 3e5});
    assert_eq!(theta(sdar(plain.clone())), 3e5);
    assert_eq!(theta(family("families/llada-moe-alt", plain)), 3e5);
    assert_eq!(theta(Altered::copy("families/sdar").set("rope_scaling", json!({"rope_type": "default"}))), 1e6);
    for parameters in [
        json!({"rope_type": "yarn", "rope_theta": 3e5, "factor": 4.0}),
        json!({}),
        json!([]),
        json!({"full_attention": {"rope_theta": 3e5}}),
    ] {
        let refused = sdar(parameters).refusal();
        assert!(refused.contains("rope_parameters is ") && refused.contains("is not supported"), "{refused}");
    }
}

#[test]
fn a_family_recommends_the_sampling_of_its_makers() {
    let rule = |family: &str, request: Request| {
        let checkpoint = Checkpoint::open(data(&format!("families/{family}"))).unwrap();
        let plan = request.plan(&checkpoint).unwrap();
        (plan.strategy.name, plan.options.sampling.rule, plan.gen_length)
    };
    let nucleus = |temperature, top_k| TokenRule::Nucleus { temperature, top_p: 1.0, top_k };
    let none = Request::default;
    assert_eq!(rule("sdar", none()), ("sdar".into(), nucleus(1.0, 0), 128));
    assert_eq!(rule("open-dcoder", none()), ("p2".into(), nucleus(0.5, 200), 128));
    assert_eq!(rule("rnd1", none()), ("rnd1".into(), nucleus(0.01, 0), 256));
    assert_eq!(rule("llada2", none()), ("llada2".into(), TokenRule::Greedy, 512));
    // Whoever sets one parameter of sampling sets all; another strategy takes the length alone.
    let set = |name: &str, value: &str| {
        let mut request = none();
        request.0.parse(name, value).unwrap();
        request
    };
    assert_eq!(rule("open-dcoder", set("temperature", "0.7")).1, nucleus(0.7, 0));
    assert_eq!(rule("open-dcoder", set("temperature", "0")).1, TokenRule::Greedy);
    assert_eq!(rule("rnd1", set("strategy", "dos")), ("dos".into(), TokenRule::Greedy, 256));
}
