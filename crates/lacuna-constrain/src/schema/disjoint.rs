use serde_json::{Map, Value};

use super::{Compiler, is_of_kind, kinds, refuse};
use crate::Refused;

/// References are followed this far.
const STEPS: usize = 8;
/// The work of comparing two schemas, in steps of the budget.
const WORK: usize = 20;

impl<'a> Compiler<'a> {
    /// Refuses alternatives of which a value might meet two.
    pub(super) fn check_disjoint(&self, parts: &'a [Value], path: &str) -> Result<(), Refused> {
        for (at, a) in parts.iter().enumerate() {
            for (other, b) in parts.iter().enumerate().skip(at + 1) {
                if !self.disjoint(a, b, path, STEPS)? {
                    return refuse(
                        path,
                        format!(
                            "a value might meet both schema {at} and schema {other}; tell them apart by type, or by a \
                                 required property with a const, or use anyOf"
                        ),
                    );
                }
            }
        }
        Ok(())
    }

    /// True where no value meets both schemas; false where one does or it cannot be told.
    fn disjoint(&self, a: &'a Value, b: &'a Value, path: &str, steps: usize) -> Result<bool, Refused> {
        self.budget.spend(WORK)?;
        let (a, b) = (self.follow(a, path)?, self.follow(b, path)?);
        if *a == Value::Bool(false) || *b == Value::Bool(false) {
            return Ok(true);
        }
        let (Some(a), Some(b)) = (a.as_object(), b.as_object()) else { return Ok(false) };
        for (these, those) in [(a, b), (b, a)] {
            if let Some(values) = values(these) {
                return self.none_meets(&values, those, path);
            }
        }
        let (a_kinds, b_kinds) = (named_kinds(a, path)?, named_kinds(b, path)?);
        if a_kinds.is_empty() || b_kinds.is_empty() {
            return Ok(false);
        }
        let meet = |a: &str, b: &str| a == b || matches!((a, b), ("integer", "number") | ("number", "integer"));
        let shared: Vec<&str> = a_kinds.iter().copied().filter(|a| b_kinds.iter().any(|b| meet(a, b))).collect();
        match shared.as_slice() {
            [] => Ok(true),
            ["object"] if steps > 0 => self.objects_disjoint(a, b, path, steps),
            _ => Ok(false),
        }
    }

    fn objects_disjoint(
        &self,
        a: &'a Map<String, Value>,
        b: &'a Map<String, Value>,
        path: &str,
        steps: usize,
    ) -> Result<bool, Refused> {
        for (these, those) in [(a, b), (b, a)] {
            for name in these.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
            {
                let (here, there) = (property(these, name), property(those, name));
                let closed = those.get("additionalProperties") == Some(&Value::Bool(false));
                let patterns = those.contains_key("patternProperties");
                if there.is_none() && closed && !patterns {
                    return Ok(true);
                }
                if let (Some(here), Some(there)) = (here, there)
                    && self.disjoint(here, there, path, steps - 1)?
                {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// True where a schema accepts none of the values, as far as its types and its own values tell.
    fn none_meets(&self, these: &[&Value], schema: &Map<String, Value>, path: &str) -> Result<bool, Refused> {
        let kinds = named_kinds(schema, path)?;
        let others = values(schema);
        self.budget.spend(these.len() * others.as_ref().map_or(1, Vec::len))?;
        let meets = |value: &&&Value| {
            (kinds.is_empty() || kinds.iter().any(|kind| is_of_kind(value, kind)))
                && others.as_ref().is_none_or(|others| others.iter().any(|other| same(other, value)))
        };
        Ok(!these.iter().any(|value| meets(&value)))
    }

    /// The schema behind references.
    fn follow(&self, schema: &'a Value, path: &str) -> Result<&'a Value, Refused> {
        let mut schema = schema;
        for _ in 0..STEPS {
            match schema.get("$ref").and_then(Value::as_str) {
                Some(target) => schema = self.resolve(target, path)?,
                None => return Ok(schema),
            }
        }
        refuse(path, "references lead too far")
    }
}

fn property<'a>(schema: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    schema.get("properties")?.get(name)
}

/// The types that a schema names itself.
fn named_kinds<'a>(schema: &'a Map<String, Value>, path: &str) -> Result<Vec<&'a str>, Refused> {
    if schema.contains_key("type") { kinds(schema, path) } else { Ok(Vec::new()) }
}

/// The values that a schema names.
fn values(schema: &Map<String, Value>) -> Option<Vec<&Value>> {
    match (schema.get("const"), schema.get("enum")) {
        (Some(value), _) => Some(vec![value]),
        (None, Some(Value::Array(values))) => Some(values.iter().collect()),
        _ => None,
    }
}

/// Equality as schemas have it: 1 and 1.0 are the same, and so are true and 1 to some who check.
fn same(a: &Value, b: &Value) -> bool {
    let number = |value: &Value| value.as_f64().or(value.as_bool().map(|flag| f64::from(u8::from(flag))));
    match (number(a), number(b)) {
        (Some(a), Some(b)) => a == b,
        _ => a == b || (a.is_array() && b.is_array()) || (a.is_object() && b.is_object()),
    }
}
