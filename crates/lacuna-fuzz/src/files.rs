//! Files of a checkpoint.

use std::fs;
use std::path::Path;

use lacuna::View;
use lacuna_models::{Checkpoint, Device, Precision, load};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

const CONFIG: &str = "config.json";
const WEIGHTS: &str = "model.safetensors";
const SHARD: &str = "model-00001-of-00001.safetensors";
const INDEX: &str = "model.safetensors.index.json";
const TOKENIZER: &str = "tokenizer.json";
const TOKENIZER_CONFIG: &str = "tokenizer_config.json";
const TEMPLATE: &str = "chat_template.jinja";

const HIDDEN: usize = 16;
const MLP: usize = 24;
const TOKENS: usize = 32;

const CHAT: &str = "{% for m in messages %}{{ m.role }}: {{ m.content | trim }}\n{% endfor %}{% if add_generation_prompt %}a:{% endif %}";

/// Opens a checkpoint of the tiny model in which `replaced` stands for the file of that name, and looks at it with `look`.
fn with(replaced: (&str, &[u8]), look: impl FnOnce(&Checkpoint) -> bool) -> bool {
    thread_local! {
        static FOLDER: TempDir = tempfile::tempdir().expect("a folder for temporary files");
    }
    FOLDER.with(|folder| {
        let folder = folder.path();
        let written = match replaced.0 {
            INDEX => SHARD,
            _ => WEIGHTS,
        };
        let files: [(&str, Vec<u8>); 5] = [
            (CONFIG, config_json().to_string().into()),
            (written, tiny_weights()),
            (TOKENIZER, tiny_tokenizer().to_string().into()),
            (TOKENIZER_CONFIG, json!({"chat_template": CHAT, "eos_token": "<e>"}).to_string().into()),
            (replaced.0, replaced.1.to_vec()),
        ];
        for name in [INDEX, SHARD, WEIGHTS, TEMPLATE] {
            let _ = fs::remove_file(folder.join(name));
        }
        for (name, content) in &files {
            fs::write(folder.join(name), content).expect("temporary files can be written");
        }
        opens(folder, look)
    })
}

fn opens(path: &Path, look: impl FnOnce(&Checkpoint) -> bool) -> bool {
    Checkpoint::open(path).is_ok_and(|checkpoint| look(&checkpoint))
}

/// Loads a model and computes one forward pass.
fn computes(checkpoint: &Checkpoint) -> bool {
    // A configuration may ask for more memory than there is; what it describes is checked before it is loaded.
    let small = checkpoint.parameters() < 1 << 20 && checkpoint.mask_token().is_ok();
    small
        && load(checkpoint, Some(Precision::F32), &Device::Cpu).is_ok_and(|mut model| {
            let tokens = [1, model.description().mask];
            model.observe(&[View { tokens: &tokens, ..View::default() }]).is_ok() && model.logits(0).is_ok()
        })
}

/// Encodes, decodes and renders a chat.
fn speaks(checkpoint: &Checkpoint) -> bool {
    let Ok(text) = checkpoint.text() else { return false };
    let _ = checkpoint.ends();
    let _ = text.decode(&[0, 1, 2, 31, u32::MAX], lacuna_models::Specials::Keep);
    text.encode("ab b <e> é\u{0}").is_ok() && text.chat(&[("user", "ab"), ("assistant", "b")]).is_ok()
}

/// config.json.
pub(crate) fn config(input: &[u8]) -> bool {
    with((CONFIG, input), computes)
}

/// A safetensors file.
pub(crate) fn safetensors(input: &[u8]) -> bool {
    with((WEIGHTS, input), computes)
}

/// The index of a checkpoint of several safetensors files.
pub(crate) fn index(input: &[u8]) -> bool {
    with((INDEX, input), computes)
}

/// tokenizer.json.
pub(crate) fn tokenizer(input: &[u8]) -> bool {
    with((TOKENIZER, input), speaks)
}

/// tokenizer_config.json.
pub(crate) fn tokenizer_config(input: &[u8]) -> bool {
    with((TOKENIZER_CONFIG, input), speaks)
}

/// A chat template.
pub(crate) fn chat_template(input: &[u8]) -> bool {
    with((TEMPLATE, input), speaks)
}

/// A GGUF file.
pub(crate) fn gguf(input: &[u8]) -> bool {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let path = folder.path().join("model.gguf");
    fs::write(&path, input).expect("temporary files can be written");
    opens(&path, |checkpoint| computes(checkpoint) && speaks(checkpoint))
}

fn config_json() -> Value {
    json!({
        "architectures": ["LLaDAModelLM"], "model_type": "llada", "d_model": HIDDEN, "n_layers": 1, "n_heads": 2, "n_kv_heads": 2,
        "mlp_hidden_size": MLP, "vocab_size": TOKENS, "max_sequence_length": 64, "rope_theta": 500000.0, "rms_norm_eps": 1e-5,
        "weight_tying": false, "mask_token_id": 31, "eos_token_id": 30, "lacuna": {"strategy": "dos+eb", "layer": 0, "gamma": 0.01},
    })
}

pub(crate) fn configs() -> Vec<Vec<u8>> {
    vec![config_json().to_string().into()]
}

/// Names and shapes of the tiny model's tensors, as LLaDA and as llama.cpp name them.
fn tensors() -> Vec<(String, String, Vec<usize>)> {
    let (square, wide, table) = (vec![HIDDEN, HIDDEN], vec![MLP, HIDDEN], vec![TOKENS, HIDDEN]);
    let names = [
        ("wte", "token_embd", table.clone()),
        ("blocks.0.attn_norm", "blk.0.attn_norm", vec![HIDDEN]),
        ("blocks.0.q_proj", "blk.0.attn_q", square.clone()),
        ("blocks.0.k_proj", "blk.0.attn_k", square.clone()),
        ("blocks.0.v_proj", "blk.0.attn_v", square.clone()),
        ("blocks.0.attn_out", "blk.0.attn_output", square),
        ("blocks.0.ff_norm", "blk.0.ffn_norm", vec![HIDDEN]),
        ("blocks.0.ff_proj", "blk.0.ffn_gate", wide.clone()),
        ("blocks.0.up_proj", "blk.0.ffn_up", wide),
        ("blocks.0.ff_out", "blk.0.ffn_down", vec![HIDDEN, MLP]),
        ("ln_f", "output_norm", vec![HIDDEN]),
        ("ff_out", "output", table),
    ];
    names
        .map(|(llada, cpp, shape)| (format!("model.transformer.{llada}.weight"), format!("{cpp}.weight"), shape))
        .into()
}

/// Values of a tensor with so many elements.
fn values(elements: usize) -> Vec<u8> {
    (0..elements).flat_map(|index| ((index % 7) as f32 * 0.1 - 0.3).to_le_bytes()).collect()
}

fn tiny_weights() -> Vec<u8> {
    let (mut header, mut data) = (Map::new(), Vec::new());
    for (name, _, shape) in tensors() {
        let begin = data.len();
        data.extend(values(shape.iter().product()));
        header.insert(name, json!({"dtype": "F32", "shape": shape, "data_offsets": [begin, data.len()]}));
    }
    let mut header = Value::from(header).to_string();
    header += &" ".repeat(header.len().next_multiple_of(8) - header.len());
    [(header.len() as u64).to_le_bytes().to_vec(), header.into_bytes(), data].concat()
}

pub(crate) fn weights() -> Vec<Vec<u8>> {
    vec![tiny_weights()]
}

pub(crate) fn indices() -> Vec<Vec<u8>> {
    let map: Map<String, Value> = tensors().into_iter().map(|(name, ..)| (name, SHARD.into())).collect();
    vec![json!({"metadata": {"total_size": 1}, "weight_map": map}).to_string().into()]
}

/// The tokens of the tiny model: some letters, a merged pair, and an end.
fn words() -> Vec<String> {
    let mut words: Vec<String> =
        ["<e>", "a", "b", "ab", "Ġ", "Ġb", "u", "s", "e", "r", ":", "Ċ"].map(String::from).into();
    words.extend((words.len()..TOKENS).map(|id| format!("<{id}>")));
    words
}

fn tiny_tokenizer() -> Value {
    let vocabulary: Map<String, Value> = words().into_iter().enumerate().map(|(id, word)| (word, id.into())).collect();
    let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": true});
    json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": [{"id": 0, "content": "<e>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}],
        "normalizer": {"type": "NFC"}, "pre_tokenizer": bytes, "post_processor": bytes, "decoder": bytes,
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null, "end_of_word_suffix": null,
            "fuse_unk": false, "byte_fallback": false, "ignore_merges": false, "vocab": vocabulary, "merges": ["a b", "Ġ b"]},
    })
}

pub(crate) fn tokenizers() -> Vec<Vec<u8>> {
    vec![tiny_tokenizer().to_string().into()]
}

pub(crate) fn tokenizer_configs() -> Vec<Vec<u8>> {
    let token = json!({"content": "<e>", "lstrip": false, "special": true});
    vec![
        json!({"chat_template": CHAT, "eos_token": "<e>", "bos_token": null, "model_max_length": 64}).to_string().into(),
        json!({"chat_template": [{"name": "default", "template": CHAT}], "eos_token": token, "added_tokens_decoder": {"0": token}})
            .to_string()
            .into(),
    ]
}

pub(crate) fn templates() -> Vec<Vec<u8>> {
    let functions = "{%- set ns = namespace(n=0) -%}{%- macro turn(m) -%}{{ m['role'] ~ ': ' ~ m.content }}{%- endmacro -%}\
                     {%- for m in messages[0:] -%}{%- if loop.first or not m.content -%}{{ turn(m) | upper }}{%- else -%}{{ turn(m) }}\
                     {%- endif -%}{%- set ns.n = ns.n + 1 -%}{%- endfor -%}{{ ns.n | tojson }}{{ 'x'.split(',')[0].strip() }}";
    vec![CHAT.into(), functions.into()]
}

pub(crate) fn ggufs() -> Vec<Vec<u8>> {
    let text = |text: &str| [(text.len() as u64).to_le_bytes().to_vec(), text.as_bytes().to_vec()].concat();
    let number = |value: u32| value.to_le_bytes().to_vec();
    let list =
        |kind: u32, count: usize, items: Vec<u8>| [number(kind), (count as u64).to_le_bytes().to_vec(), items].concat();
    let words = words();
    let kinds: Vec<u8> = (0..words.len()).flat_map(|id| number(if id == 0 { 3 } else { 1 })).collect();
    let pairs: Vec<(&str, u32, Vec<u8>)> = vec![
        ("general.architecture", 8, text("llada")),
        ("llada.block_count", 4, number(1)),
        ("llada.context_length", 4, number(64)),
        ("llada.embedding_length", 4, number(HIDDEN as u32)),
        ("llada.feed_forward_length", 4, number(MLP as u32)),
        ("llada.attention.head_count", 4, number(2)),
        ("llada.attention.head_count_kv", 4, number(2)),
        ("llada.rope.freq_base", 6, 500_000f32.to_le_bytes().to_vec()),
        ("llada.attention.layer_norm_rms_epsilon", 6, 1e-5f32.to_le_bytes().to_vec()),
        ("tokenizer.ggml.model", 8, text("gpt2")),
        ("tokenizer.ggml.pre", 8, text("qwen2")),
        ("tokenizer.ggml.tokens", 9, list(8, words.len(), words.iter().flat_map(|word| text(word)).collect())),
        ("tokenizer.ggml.token_type", 9, list(5, words.len(), kinds)),
        ("tokenizer.ggml.merges", 9, list(8, 1, text("a b"))),
        ("tokenizer.ggml.mask_token_id", 4, number(31)),
        ("tokenizer.ggml.eos_token_id", 4, number(0)),
        ("tokenizer.chat_template", 8, text(CHAT)),
    ];
    let tensors = tensors();
    let mut file = [b"GGUF".to_vec(), number(3)].concat();
    file.extend((tensors.len() as u64).to_le_bytes());
    file.extend((pairs.len() as u64).to_le_bytes());
    for (key, kind, value) in pairs {
        file.extend([text(key), number(kind), value].concat());
    }
    let mut data = Vec::new();
    for (_, name, shape) in &tensors {
        file.extend([text(name), number(shape.len() as u32)].concat());
        file.extend(shape.iter().rev().flat_map(|&size| (size as u64).to_le_bytes()));
        file.extend(number(0));
        file.extend((data.len() as u64).to_le_bytes());
        data.extend(values(shape.iter().product()));
        data.resize(data.len().next_multiple_of(32), 0);
    }
    file.resize(file.len().next_multiple_of(32), 0);
    vec![[file, data].concat()]
}
