//! Tools: functions that the answer to a chat may call. A call is a JSON object with the function's name and its arguments, to which
//! the answer is constrained.

use lacuna_models::Constraint;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::ApiError;

/// Fields of a chat's body that are about tools.
pub(crate) const FIELDS: [&str; 3] = ["tools", "tool_choice", "parallel_tool_calls"];
const MAX_TOOLS: usize = 128;
const MAX_NAME: usize = 64;

/// A function that is offered.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tool {
    #[serde(rename = "type")]
    _kind: FunctionType,
    function: Function,
}

/// Only functions.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum FunctionType {
    Function,
}

/// A function's name and arguments.
#[derive(Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Function {
    /// Letters, digits, `_` and `-`.
    #[schema(pattern = "^[a-zA-Z0-9_-]{1,64}$")]
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// JSON schema of the arguments; none if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<Map<String, Value>>,
    /// Arguments are valid in any case.
    #[serde(rename = "strict", skip_serializing)]
    _strict: Option<bool>,
}

/// Rule for calling a function.
#[derive(Deserialize, ToSchema)]
#[serde(
    untagged,
    expecting = "tool_choice is none, auto, required, or {\"type\": \"function\", \"function\": {\"name\": ...}}"
)]
pub(crate) enum ToolChoice {
    /// In a word.
    Word(Choice),
    /// This function is called.
    Named(NamedChoice),
}

/// Rule for calling a function, in a word.
#[derive(Clone, Copy, Deserialize, PartialEq, Eq, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Choice {
    /// No function is called.
    None,
    /// A function is called, or the answer is a text.
    Auto,
    /// A function is called.
    Required,
}

/// A function that is called.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NamedChoice {
    #[serde(rename = "type")]
    _kind: FunctionType,
    function: FunctionName,
}

/// A function's name.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FunctionName {
    name: String,
}

/// The functions that an answer may call.
pub(crate) struct Offer {
    functions: Vec<Function>,
    /// True if the answer may be a text, too.
    or_text: bool,
}

impl Offer {
    /// The offered functions, if any.
    pub(crate) fn new(tools: Option<Vec<Tool>>, choice: Option<ToolChoice>) -> Result<Option<Self>, ApiError> {
        let mut functions: Vec<Function> = tools.unwrap_or_default().into_iter().map(|tool| tool.function).collect();
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        for (index, Function { name, .. }) in functions.iter().enumerate() {
            if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(plain) {
                let why = format!("'{name}' is not a function name: use 1 to {MAX_NAME} letters, digits, _ and -");
                return Err(ApiError::bad(why).at("tools"));
            }
            if functions[..index].iter().any(|other| other.name == *name) {
                return Err(ApiError::bad(format!("there are two functions '{name}'")).at("tools"));
            }
        }
        if functions.len() > MAX_TOOLS {
            return Err(ApiError::bad(format!("at most {MAX_TOOLS} tools can be offered")).at("tools"));
        }
        let or_text = match choice {
            Some(ToolChoice::Word(Choice::None)) => return Ok(None),
            None | Some(ToolChoice::Word(Choice::Auto)) if functions.is_empty() => return Ok(None),
            None | Some(ToolChoice::Word(Choice::Auto)) => true,
            Some(ToolChoice::Word(Choice::Required)) => false,
            Some(ToolChoice::Named(NamedChoice { function, .. })) => {
                functions.retain(|offered| offered.name == function.name);
                if functions.is_empty() {
                    let why = format!("tool_choice names '{}', which is not among the tools", function.name);
                    return Err(ApiError::bad(why).at("tool_choice"));
                }
                false
            }
        };
        if functions.is_empty() {
            return Err(ApiError::bad("tool_choice asks for a call, but there are no tools").at("tools"));
        }
        Ok(Some(Self { functions, or_text }))
    }

    /// The texts that an answer may be.
    pub(crate) fn constraint(&self) -> Constraint {
        let call = |(index, function): (usize, &Function)| {
            let mut arguments = match &function.parameters {
                Some(parameters) => Value::Object(parameters.clone()),
                None => json!({"type": "object", "properties": {}, "additionalProperties": false}),
            };
            move_references(&mut arguments, &format!("#/anyOf/{index}/properties/arguments"));
            json!({
                "type": "object",
                "properties": {"name": {"const": function.name}, "arguments": arguments},
                "required": ["name", "arguments"],
                "additionalProperties": false,
            })
        };
        let schema = json!({"anyOf": self.functions.iter().enumerate().map(call).collect::<Vec<_>>()});
        if self.or_text { Constraint::JsonSchemaOrText(schema) } else { Constraint::JsonSchema(schema) }
    }

    /// Description of the functions for the model.
    pub(crate) fn describe(&self) -> String {
        let functions =
            self.functions.iter().map(|function| json!(function).to_string()).collect::<Vec<_>>().join("\n");
        let may = if self.or_text { "You may call one of these functions" } else { "Call one of these functions" };
        format!("{may} by answering with {{\"name\": ..., \"arguments\": ...}} alone:\n{functions}")
    }
}

/// Makes references within a schema right again that has become a part of another, at `place`.
fn move_references(schema: &mut Value, place: &str) {
    match schema {
        Value::Object(members) => {
            for (key, value) in members.iter_mut() {
                match value {
                    Value::String(target) if key == "$ref" && target.starts_with('#') => {
                        *target = format!("{place}{}", &target[1..]);
                    }
                    value => move_references(value, place),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| move_references(item, place)),
        _ => {}
    }
}

/// A call of a function.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub(crate) struct ToolCall {
    /// In a stream, which of the calls this is.
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<usize>,
    id: String,
    #[serde(rename = "type")]
    #[schema(pattern = "^function$")]
    kind: &'static str,
    function: Called,
}

/// The function that is called, and its arguments.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub(crate) struct Called {
    name: String,
    /// JSON, as the model wrote it.
    arguments: String,
}

impl ToolCall {
    /// The call that a text is, if it is one.
    pub(crate) fn parse(text: &str, id: &str, index: Option<usize>) -> Option<Self> {
        let call: Map<String, Value> = serde_json::from_str(text).ok()?;
        let name = call.get("name")?.as_str()?.to_string();
        // Neither the braces nor a function's name have such a text in them.
        let (_, arguments) = text.split_once("\"arguments\":")?;
        let arguments = arguments.trim().strip_suffix('}')?.trim_end().to_string();
        Some(Self { index, id: format!("call_{id}"), kind: "function", function: Called { name, arguments } })
    }
}

/// A call in a chat's history.
#[derive(Deserialize, ToSchema)]
pub(crate) struct PastCall {
    function: PastFunction,
}

/// The function that was called.
#[derive(Deserialize, ToSchema)]
pub(crate) struct PastFunction {
    name: String,
    arguments: String,
}

impl PastCall {
    /// The call as the model wrote it.
    pub(crate) fn written(&self) -> String {
        format!("{{\"name\": {}, \"arguments\": {}}}", json!(self.function.name), self.function.arguments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_keeps_its_arguments_as_they_were_written() {
        let call = ToolCall::parse(r#"{"name": "f", "arguments": {"x": 1.50, "y": "}"}}"#, "7", None).unwrap();
        assert_eq!(call.function, Called { name: "f".into(), arguments: r#"{"x": 1.50, "y": "}"}"#.into() });
        assert_eq!(ToolCall::parse("{\"name\": 1", "7", None), None);
        assert_eq!(ToolCall::parse("A text.", "7", None), None);
    }

    #[test]
    fn references_of_arguments_are_moved() {
        let mut schema =
            json!({"properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"items": [{"$ref": "#"}]}}});
        move_references(&mut schema, "#/p");
        assert_eq!(schema["properties"]["a"]["$ref"], "#/p/$defs/x");
        assert_eq!(schema["$defs"]["x"]["items"][0]["$ref"], "#/p");
    }
}
