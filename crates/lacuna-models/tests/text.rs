//! Tokenizers and chat templates.

mod common;

use common::altered::Altered;
use lacuna::Token;
use lacuna_models::{Checkpoint, Specials};
use serde_json::{Value, json};

const LLADA_TEMPLATE: &str = "{% set loop_messages = messages %}{% for message in loop_messages %}\
    {% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' %}\
    {% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}\
    {{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}";

/// Qwen2's files in small: the letters, and a few merges.
fn qwen2() -> (Vec<String>, &'static str) {
    let letters = "abcdefghijklmnopqrstuvwxyz0123456789'!ĠĊÃ©".chars().map(String::from);
    let merged = ["it", "'s", "ĊĊ", "Ġx", "Ã©", "12", "t'"].map(String::from);
    (letters.chain(merged).collect(), "#version: 0.2\ni t\n' s\nĊ Ċ\nĠ x\nÃ ©\n1 2\nt '\n")
}

fn added(first: usize, tokens: &[&str]) -> Value {
    let entry =
        |(index, content): (usize, &&str)| ((first + index).to_string(), json!({"content": content, "special": true}));
    Value::Object(tokens.iter().enumerate().map(entry).collect())
}

/// dream-tiny with a tokenizer as the published Dream repositories have it.
fn dream(config: Value) -> Altered {
    let (vocabulary, merges) = qwen2();
    let ids: serde_json::Map<String, Value> =
        vocabulary.iter().enumerate().map(|(id, token)| (token.clone(), id.into())).collect();
    let mut all = json!({
        "added_tokens_decoder": added(vocabulary.len(), &["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|mask|>"]),
        "bos_token": "<|endoftext|>",
        "eos_token": {"content": "<|endoftext|>"},
    });
    config.as_object().unwrap().iter().for_each(|(key, value)| all[key] = value.clone());
    let altered = Altered::copy("dream-tiny");
    altered
        .write("vocab.json", Value::Object(ids).to_string())
        .write("merges.txt", merges)
        .write("tokenizer_config.json", all.to_string())
}

fn pieces(checkpoint: &Checkpoint, text: &str) -> Vec<String> {
    let text_model = checkpoint.text().unwrap();
    let tokens = text_model.encode(text).unwrap();
    tokens.iter().map(|&token| text_model.decode(&[token], Specials::Keep).unwrap()).collect()
}

#[test]
fn qwen2_vocabulary_and_merges_are_a_tokenizer() {
    let altered = dream(json!({}));
    let checkpoint = Checkpoint::open(altered.path()).unwrap();
    assert_eq!(pieces(&checkpoint, "it's 12\n\n x"), ["it", "'s", " ", "1", "2", "\n\n", " x"]);
    assert_eq!(pieces(&checkpoint, "e\u{301}"), ["é"]);
    assert_eq!(pieces(&checkpoint, "a<|mask|>!"), ["a", "<|mask|>", "!"]);

    let text = checkpoint.text().unwrap();
    let tokens = text.encode("it's x<|im_end|><|mask|>").unwrap();
    assert_eq!(text.decode(&tokens, Specials::Keep).unwrap(), "it's x<|im_end|><|mask|>");
    assert_eq!(text.decode(&tokens, Specials::Skip).unwrap(), "it's x");
    assert_eq!(checkpoint.ends(), [509, text.token("<|im_end|>").unwrap()]);
    assert_eq!(text.token("<|mask|>"), Some(qwen2().0.len() as Token + 3));
}

#[test]
fn added_tokens_may_have_a_file_of_their_own() {
    let next = qwen2().0.len();
    let altered = dream(json!({})).write("tokenizer_config.json", "{}");
    let altered = altered.write("added_tokens.json", json!({"<|b|>": next + 1, "<|a|>": next}).to_string());
    let checkpoint = Checkpoint::open(altered.path()).unwrap();
    assert_eq!(checkpoint.text().unwrap().encode("<|a|><|b|>").unwrap(), [next as Token, next as Token + 1]);
}

#[test]
fn templates_render_as_transformers_renders_them() {
    let render = |template: Value, messages: &[(&str, &str)]| {
        let altered = dream(json!({"chat_template": template}));
        Checkpoint::open(altered.path()).unwrap().text().unwrap().render(messages)
    };
    assert_eq!(
        render(json!(LLADA_TEMPLATE), &[("user", " hi "), ("assistant", "yo"), ("user", "?")]).unwrap(),
        "<|endoftext|><|start_header_id|>user<|end_header_id|>\n\nhi<|eot_id|>\
         <|start_header_id|>assistant<|end_header_id|>\n\nyo<|eot_id|>\
         <|start_header_id|>user<|end_header_id|>\n\n?<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
    );

    // Blocks on lines of their own leave no trace: trim_blocks and lstrip_blocks.
    let qwen2 = "{%- if messages[0]['role'] != 'system' %}\n    {{- '<|im_start|>system\\nBe kind.<|im_end|>\\n' }}\n{%- endif %}\n\
        {% for message in messages %}\n  {% if message.content.strip() %}\n\
        {{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}\n  {% endif %}\n{% endfor %}\n\
        {%- if add_generation_prompt %}\n    {{- '<|im_start|>assistant\\n' }}\n{%- endif %}";
    assert_eq!(
        render(json!([{"name": "tools", "template": "no"}, {"name": "default", "template": qwen2}]), &[("user", "hi")])
            .unwrap(),
        "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n\n<|im_start|>assistant\n"
    );
    assert_eq!(
        render(json!("{{ messages[0] | tojson }}"), &[("user", "<é>")]).unwrap(),
        r#"{"role": "user", "content": "<é>"}"#
    );
    assert_eq!(render(json!("{{ strftime_now('%Y') | length }}"), &[]).unwrap(), "4");
    assert_eq!(render(json!("{{ eos_token }}{{ pad_token }}"), &[]).unwrap(), "<|endoftext|>");
    let looped = "{% for m in messages %}{% if m.role == 'b' %}{% break %}{% endif %}{{ m.role }}{% endfor %}";
    assert_eq!(render(json!(looped), &[("a", ""), ("b", ""), ("c", "")]).unwrap(), "a");
}

#[test]
fn a_chat_is_encoded_with_its_special_tokens() {
    let altered = dream(json!({"chat_template": "<|im_start|>{{ messages[0].content }}<|im_end|>"}));
    let checkpoint = Checkpoint::open(altered.path()).unwrap();
    let text = checkpoint.text().unwrap();
    assert!(text.can_chat());
    let tokens = text.chat(&[("user", "it")]).unwrap();
    let expected = ["<|im_start|>", "it", "<|im_end|>"].map(|written| text.token(written).unwrap());
    assert_eq!(tokens, expected);
}

#[test]
fn a_template_may_have_a_file_of_its_own() {
    let altered = dream(json!({"chat_template": "config"})).write("chat_template.jinja", "file");
    assert_eq!(Checkpoint::open(altered.path()).unwrap().text().unwrap().render(&[]).unwrap(), "file");
}

#[test]
fn what_is_wrong_with_the_text_files_is_said() {
    let error = |altered: &Altered, use_it: fn(&Checkpoint) -> lacuna_models::Result<()>| {
        let checkpoint = Checkpoint::open(altered.path()).unwrap();
        let error = use_it(&checkpoint).unwrap_err().to_string();
        error
            .replace(&format!("{}/", altered.path().display()), "")
            .replace(&altered.path().display().to_string(), "DIR")
    };
    let load: fn(&Checkpoint) -> lacuna_models::Result<()> = |checkpoint| checkpoint.text().map(drop);
    let chat: fn(&Checkpoint) -> lacuna_models::Result<()> =
        |checkpoint| checkpoint.text()?.chat(&[("user", "it")]).map(drop);

    let nothing = Altered::copy("dream-tiny");
    assert!(
        error(&nothing, load)
            .starts_with("DIR has no tokenizer (neither tokenizer.json nor vocab.json with merges.txt)")
    );
    assert!(error(&dream(json!({})).remove("merges.txt"), load).starts_with("DIR has no tokenizer"));
    assert!(error(&dream(json!({})), chat).starts_with("DIR has no chat template"));
    assert!(error(&dream(json!({})), chat).ends_with("give it plain text to continue"));
    let broken = dream(json!({})).write("tokenizer.json", "{\"version\": 1");
    assert!(error(&broken, load).starts_with("tokenizer.json is not a usable tokenizer: "));
    assert!(error(&dream(json!({})).write("vocab.json", "[1"), load).starts_with("vocab.json is not as expected: "));
    assert!(error(&dream(json!({})).write("tokenizer_config.json", "{"), load).contains("line 1"));

    let shifted = added(qwen2().0.len() + 7, &["<|mask|>"]);
    let refused = error(&dream(json!({"added_tokens_decoder": shifted})), load);
    assert!(refused.contains("gives '<|mask|>' the id"), "{refused}");
    let refused = error(&dream(json!({"chat_template": "{{ raise_exception('roles must alternate') }}"})), chat);
    assert_eq!(refused, "the chat template in tokenizer_config.json fails: roles must alternate (line 1)");
    let refused = error(&dream(json!({"chat_template": "{% for %}"})), chat);
    assert!(refused.starts_with("the chat template in tokenizer_config.json fails: unexpected"), "{refused}");
}

#[test]
fn a_tokenizer_that_makes_its_library_panic_is_refused_in_a_sentence() {
    let tokenizer = |normalizer: &str, decoder: &str| {
        let json = format!(
            r#"{{"version": "1.0", "added_tokens": [], "normalizer": {normalizer}, "pre_tokenizer": null,
            "post_processor": null, "decoder": {decoder},
            "model": {{"type": "BPE", "vocab": {{"a": 0, "l": 1}}, "merges": []}}}}"#
        );
        Altered::copy("llada-tiny").write("tokenizer.json", json)
    };
    for (normalizer, decoder) in [("null", r#"{"type": oops}"#), (r#"{"type": "Precompiled"}"#, "null")] {
        let altered = tokenizer(normalizer, decoder);
        let refused = Checkpoint::open(altered.path()).unwrap().text().err().unwrap().to_string();
        assert!(
            refused.contains("tokenizer.json is not a usable tokenizer: the tokenizer library fails on it ("),
            "{refused}"
        );
        assert!(!refused.contains('\n'), "{refused}");
    }
    let fine = tokenizer("null", "null");
    assert_eq!(Checkpoint::open(fine.path()).unwrap().text().unwrap().encode("la").unwrap(), [1, 0]);
}

#[test]
fn a_chat_template_of_a_wrong_type_is_refused() {
    for template in [json!(3), json!(true), json!({}), json!([{"name": "default", "template": 3}])] {
        let altered = dream(json!({"chat_template": template}));
        let refused = Checkpoint::open(altered.path()).unwrap().text().err().unwrap().to_string();
        assert!(refused.ends_with("chat_template must be a string, or a list of templates with names"), "{refused}");
    }
    for template in [Value::Null, json!([{"name": "tools", "template": "x"}])] {
        let altered = dream(json!({"chat_template": template}));
        assert!(!Checkpoint::open(altered.path()).unwrap().text().unwrap().can_chat());
    }
}
