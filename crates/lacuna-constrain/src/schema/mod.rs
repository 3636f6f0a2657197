//! JSON schemas.
//!
//! The texts are a part of those that the schema accepts: properties come in the schema's order, properties that it does
//! not name come only where it asks for them, and where a keyword says something only about one kind of value and no type
//! is given, that kind is meant. Nothing that the schema forbids is ever allowed; a keyword that cannot be kept is refused.

mod disjoint;
mod list;
mod object;
mod string;

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::{
    Refused, Spacing,
    automaton::{Budget, Expr, Grammar},
    json::{self, Any},
    number::{self, Bound, Bounds},
};

/// Keywords that say something about strings, numbers, arrays and objects.
const STRING: &[&str] = &["minLength", "maxLength", "pattern", "format"];
const NUMBER: &[&str] = &["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"];
const ARRAY: &[&str] = &["items", "prefixItems", "minItems", "maxItems", "uniqueItems"];
const OBJECT: &[&str] =
    &["properties", "required", "additionalProperties", "propertyNames", "minProperties", "maxProperties"];
/// Keywords that combine schemas or name values.
const COMBINED: &[&str] = &["$ref", "allOf", "anyOf", "oneOf", "enum", "const"];
/// Keywords that restrict and cannot be kept.
const REFUSED: &[&str] = &[
    "not",
    "if",
    "then",
    "else",
    "patternProperties",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
    "unevaluatedProperties",
    "unevaluatedItems",
    "contains",
    "minContains",
    "maxContains",
    "additionalItems",
    "$dynamicRef",
    "$recursiveRef",
];
/// Schemas may be nested this deep.
const NESTING: usize = 100;
/// Lists of items and properties are at most this long.
const COUNT: u64 = 10_000;

/// The grammar of a schema's texts.
pub(crate) fn grammar(schema: &Value, spacing: Spacing, budget: &Budget) -> Result<Grammar, Refused> {
    let mut compiler = Compiler {
        root: schema,
        spacing,
        grammar: Grammar::default(),
        references: HashMap::new(),
        any: None,
        string: None,
        nesting: 0,
        budget,
    };
    let expr = compiler.value(schema, "#")?;
    compiler.grammar.root = compiler.grammar.add(expr);
    Ok(compiler.grammar)
}

struct Compiler<'a> {
    root: &'a Value,
    spacing: Spacing,
    grammar: Grammar,
    /// The rules of schemas that others refer to.
    references: HashMap<String, usize>,
    any: Option<Any>,
    /// Any string.
    string: Option<Expr>,
    /// Schemas that are being read, each inside the one before.
    nesting: usize,
    budget: &'a Budget,
}

/// A refusal that says where in the schema.
fn refuse<T>(path: &str, what: impl std::fmt::Display) -> Result<T, Refused> {
    Err(Refused::new(format!("the schema is refused at {path}: {what}")))
}

impl<'a> Compiler<'a> {
    fn any(&mut self) -> Result<Any, Refused> {
        if self.any.is_none() {
            self.any = Some(Any::new(&mut self.grammar, self.spacing, self.budget)?);
        }
        Ok(self.any.clone().expect("made above"))
    }

    fn any_value(&mut self) -> Result<Expr, Refused> {
        Ok(Expr::Call(self.any()?.value))
    }

    /// The values that a schema accepts.
    fn value(&mut self, schema: &'a Value, path: &str) -> Result<Expr, Refused> {
        if self.nesting == NESTING {
            return refuse(path, format!("schemas are nested more than {NESTING} deep, references followed"));
        }
        self.nesting += 1;
        let values = self.accepted(schema, path);
        self.nesting -= 1;
        values
    }

    fn accepted(&mut self, schema: &'a Value, path: &str) -> Result<Expr, Refused> {
        let schema = match schema {
            Value::Bool(true) => return self.any_value(),
            Value::Bool(false) => return Ok(Expr::never()),
            Value::Object(schema) => schema,
            _ => return refuse(path, "a schema is an object, true or false"),
        };
        if let Some(keyword) = REFUSED.iter().find(|keyword| schema.contains_key(**keyword)) {
            return refuse(path, format!("{keyword} is not supported"));
        }
        if let Some(keyword) = COMBINED.iter().find(|keyword| schema.contains_key(**keyword)) {
            return self.combined(schema, keyword, path);
        }
        let kinds = kinds(schema, path)?;
        if kinds.is_empty() {
            return self.any_value();
        }
        let ways = kinds.into_iter().map(|kind| self.kind(schema, kind, path)).collect::<Result<_, _>>()?;
        Ok(Expr::Alt(ways))
    }

    /// The values of one kind.
    fn kind(&mut self, schema: &'a Map<String, Value>, kind: &str, path: &str) -> Result<Expr, Refused> {
        match kind {
            "null" => Ok(Expr::text("null")),
            "boolean" => Ok(Expr::Alt(vec![Expr::text("true"), Expr::text("false")])),
            "integer" | "number" => number_of(schema, kind == "integer", path, self.budget),
            "string" => self.string(schema, path),
            "array" => self.array(schema, path),
            "object" => self.object(schema, path),
            other => refuse(path, format!("{other:?} is not a type")),
        }
    }

    fn combined(&mut self, schema: &'a Map<String, Value>, keyword: &str, path: &str) -> Result<Expr, Refused> {
        let named = matches!(keyword, "enum" | "const");
        let others = [STRING, NUMBER, ARRAY, OBJECT, COMBINED].concat();
        let beside = others.iter().find(|other| **other != keyword && schema.contains_key(**other));
        let beside = beside.copied().or((!named && schema.contains_key("type")).then_some("type"));
        if let Some(other) = beside {
            return refuse(path, format!("{other} beside {keyword} is not supported"));
        }
        let here = format!("{path}/{keyword}");
        match (keyword, &schema[keyword]) {
            ("$ref", Value::String(target)) => self.reference(target, &here),
            ("const", value) => self.values(std::slice::from_ref(value), schema, path),
            ("enum", Value::Array(values)) => self.values(values, schema, path),
            ("allOf", Value::Array(parts)) => match parts.as_slice() {
                [part] => self.value(part, &format!("{here}/0")),
                _ => refuse(&here, "allOf of more than one schema is not supported; write them as one"),
            },
            ("anyOf" | "oneOf", Value::Array(parts)) => {
                if keyword == "oneOf" {
                    self.check_disjoint(parts, &here)?;
                }
                let part = |(at, part)| self.value(part, &format!("{here}/{at}"));
                Ok(Expr::Alt(parts.iter().enumerate().map(part).collect::<Result<_, _>>()?))
            }
            _ => refuse(&here, "this cannot be read"),
        }
    }

    /// Given values, those that are of the schema's types.
    fn values(&self, values: &[Value], schema: &Map<String, Value>, path: &str) -> Result<Expr, Refused> {
        let kinds = kinds(schema, path)?;
        let fits = |value: &&Value| kinds.is_empty() || kinds.iter().any(|kind| is_of_kind(value, kind));
        Ok(Expr::Alt(values.iter().filter(fits).map(|value| json::constant(value, self.spacing)).collect()))
    }

    fn reference(&mut self, target: &str, path: &str) -> Result<Expr, Refused> {
        if let Some(&rule) = self.references.get(target) {
            return Ok(Expr::Call(rule));
        }
        let schema = self.resolve(target, path)?;
        let rule = self.grammar.reserve();
        self.references.insert(target.to_owned(), rule);
        self.grammar.rules[rule] = self.value(schema, target)?;
        Ok(Expr::Call(rule))
    }

    /// The schema that a reference within this one points to.
    fn resolve(&self, target: &str, path: &str) -> Result<&'a Value, Refused> {
        let Some(pointer) = target.strip_prefix('#').filter(|rest| rest.is_empty() || rest.starts_with('/')) else {
            return refuse(path, format!("{target:?} does not point into this schema (#/...)"));
        };
        match self.root.pointer(&unescape(pointer)) {
            Some(schema) => Ok(schema),
            None => refuse(path, format!("{target:?} points to nothing")),
        }
    }
}

/// Undoes percent-encoding.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        let code = behind.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match code.and_then(|hex| u8::from_str_radix(hex, 16).ok()).filter(|_| first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &behind[2..];
            }
            None => {
                bytes.push(first);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The types that a schema names, or else those that its keywords are about; none where it says nothing.
fn kinds<'a>(schema: &'a Map<String, Value>, path: &str) -> Result<Vec<&'a str>, Refused> {
    let about = [("string", STRING), ("number", NUMBER), ("array", ARRAY), ("object", OBJECT)];
    match schema.get("type") {
        Some(Value::String(kind)) => Ok(vec![kind]),
        Some(Value::Array(kinds)) => {
            let mut names: Vec<&str> = kinds.iter().filter_map(Value::as_str).collect();
            if names.len() != kinds.len() || names.is_empty() {
                return refuse(path, "type is a name or a list of names");
            }
            // Every integer is a number: one of the two is enough.
            if names.contains(&"number") {
                names.retain(|name| *name != "integer");
            }
            Ok(names)
        }
        Some(_) => refuse(path, "type is a name or a list of names"),
        None => Ok((about.into_iter())
            .filter(|(_, keywords)| keywords.iter().any(|keyword| schema.contains_key(*keyword)))
            .map(|(kind, _)| kind)
            .collect()),
    }
}

fn is_of_kind(value: &Value, kind: &str) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    }
}

/// A count in a schema: a whole number that is not negative.
fn count(schema: &Map<String, Value>, keyword: &str, path: &str) -> Result<Option<u64>, Refused> {
    match schema.get(keyword) {
        None => Ok(None),
        Some(value) => match value.as_f64().filter(|count| *count >= 0.0 && count.fract() == 0.0) {
            Some(count) => Ok(Some(count as u64)),
            None => refuse(path, format!("{keyword} is not a count")),
        },
    }
}

fn number_of(schema: &Map<String, Value>, integer: bool, path: &str, budget: &Budget) -> Result<Expr, Refused> {
    let bound = |keyword: &str, exclusive: bool| match schema.get(keyword) {
        None => Ok(None),
        Some(value) => match value.as_f64() {
            Some(value) => Ok(Some(Bound { value, exclusive })),
            None => refuse(path, format!("{keyword} is not a number")),
        },
    };
    let least: Vec<Bound> =
        [bound("minimum", false)?, bound("exclusiveMinimum", true)?].into_iter().flatten().collect();
    let most: Vec<Bound> = [bound("maximum", false)?, bound("exclusiveMaximum", true)?].into_iter().flatten().collect();
    let factor = match schema.get("multipleOf").map(|factor| (factor, factor.as_f64())) {
        None => None,
        Some((_, Some(factor))) if factor.fract() == 0.0 && (1.0..=1e9).contains(&factor) => Some(factor as u32),
        Some((factor, _)) => return refuse(path, format!("multipleOf {factor} is not supported: whole numbers are")),
    };
    let numbers = if integer || factor.is_some() {
        Bounds::integers(&least, &most).and_then(|bounds| number::integer(bounds, factor, budget))
    } else {
        Bounds::decimals(&least, &most).and_then(|bounds| number::decimal(bounds, budget))
    };
    numbers.or_else(|refused| refuse(path, refused))
}
