//! Fields of other servers that clients send out of habit. A value that asks for nothing is let pass; any other is refused.

use serde_json::{Map, Value, json};

use super::ApiError;

/// A field, the value that asks for nothing besides null, and why no other is possible.
pub(crate) struct Neutral {
    pub(crate) name: &'static str,
    value: fn() -> Value,
    why: &'static str,
}

const ORDER: &str = "tokens are not chosen one after the other";
const GREEDY: &str = "texts are not searched for, they are decoded";
const ENDS: &str = "early_stop, suppress_eos and stop say when a text ends";
const PLAIN: &str = "texts are returned without special tokens";
const TEMPLATE: &str = "the model's own template is used as it is";
const WHOLE: &str = "a prompt is taken whole or refused";

const fn neutral(name: &'static str, value: fn() -> Value, why: &'static str) -> Neutral {
    Neutral { name, value, why }
}

/// Every such field.
pub(crate) const NEUTRAL: [Neutral; 25] = [
    neutral("min_p", || json!(0), "top_p and top_k say which tokens may be drawn"),
    neutral("typical_p", || json!(1), "top_p and top_k say which tokens may be drawn"),
    neutral("repetition_penalty", || json!(1), ORDER),
    neutral("length_penalty", || json!(1), GREEDY),
    neutral("use_beam_search", || json!(false), GREEDY),
    neutral("early_stopping", || json!(false), GREEDY),
    neutral("ignore_eos", || json!(false), ENDS),
    neutral("min_tokens", || json!(0), ENDS),
    neutral("stop_token_ids", || json!([]), ENDS),
    neutral("include_stop_str_in_output", || json!(false), ENDS),
    neutral("bad_words", || json!([]), "logits cannot be changed from outside"),
    neutral("logits_processors", || json!([]), "logits cannot be changed from outside"),
    neutral("skip_special_tokens", || json!(true), PLAIN),
    neutral("spaces_between_special_tokens", || json!(true), PLAIN),
    neutral("return_token_ids", || json!(false), "/tokenize returns the tokens of a text"),
    neutral("return_tokens_as_token_ids", || json!(false), "/tokenize returns the tokens of a text"),
    neutral("prompt_logprobs", || json!(0), "a masked diffusion model has no likelihood from left to right"),
    neutral("add_generation_prompt", || json!(true), TEMPLATE),
    neutral("continue_final_message", || json!(false), TEMPLATE),
    neutral("add_special_tokens", || json!(false), TEMPLATE),
    neutral("chat_template", || json!(null), TEMPLATE),
    neutral("chat_template_kwargs", || json!({}), TEMPLATE),
    neutral("documents", || json!([]), TEMPLATE),
    neutral("truncate_prompt_tokens", || json!(null), WHOLE),
    neutral("priority", || json!(0), "whoever has had least of the model's time comes first"),
];

/// Takes these fields out of a body.
pub(crate) fn take(body: &mut Map<String, Value>) -> Result<(), ApiError> {
    for field in NEUTRAL {
        let Some(value) = body.remove(field.name) else { continue };
        if !value.is_null() && !same(&value, &(field.value)()) {
            return Err(ApiError::bad(format!("'{}' is not supported: {}", field.name, field.why)).at(field.name));
        }
    }
    // As other servers write that all tokens may be drawn.
    if body.get("top_k").is_some_and(|value| same(value, &json!(-1))) {
        body.remove("top_k");
    }
    Ok(())
}

/// True for equal values, 1 and 1.0 among them.
fn same(a: &Value, b: &Value) -> bool {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => a == b,
        _ => a == b,
    }
}

impl Neutral {
    /// Its values, as JSON Schema.
    pub(crate) fn schema(&self) -> Value {
        let value = (self.value)();
        let values = if value.is_null() { json!([null]) } else { json!([null, value]) };
        json!({"description": format!("Has no effect: {}.", self.why), "enum": values})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_asks_for_nothing_passes_and_the_rest_is_refused_by_name() {
        let mut body = json!({"min_p": 0.0, "repetition_penalty": 1, "top_k": -1, "ignore_eos": false, "seed": 3,
            "skip_special_tokens": true, "add_generation_prompt": true, "chat_template_kwargs": {}, "bad_words": null});
        take(body.as_object_mut().unwrap()).unwrap();
        assert_eq!(body, json!({"seed": 3}));
        for body in
            [json!({"min_p": 0.1}), json!({"ignore_eos": true}), json!({"documents": [1]}), json!({"priority": "0"})]
        {
            let error = take(&mut body.as_object().unwrap().clone()).unwrap_err();
            assert!(format!("{error:?}").contains("is not supported"));
        }
    }
}
