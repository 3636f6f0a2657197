use std::collections::HashSet;

use serde_json::{Map, Value};

use super::{Compiler, STRING, count, refuse, string};
use crate::{
    Refused,
    automaton::{Dfa, Expr, subtract},
    json,
};

/// Keywords that restrict nothing.
const ANNOTATIONS: &[&str] = &["title", "description", "$comment", "examples", "default"];

/// A property that an object may have.
struct Property<'a> {
    name: &'a str,
    value: usize,
    required: bool,
}

impl<'a> Compiler<'a> {
    /// Objects that a schema accepts.
    pub(super) fn object(&mut self, schema: &'a Map<String, Value>, path: &str) -> Result<Expr, Refused> {
        let properties = self.properties(schema, path)?;
        let says = ["properties", "required", "additionalProperties", "propertyNames"];
        if properties.is_empty() && !says.iter().any(|keyword| schema.contains_key(*keyword)) {
            self.check_counts(schema, &properties, true, path)?;
            return Ok(self.any()?.object());
        }
        let extra = self.extra(schema, &properties, path)?;
        self.check_counts(schema, &properties, extra.is_some(), path)?;

        // What may stand behind some properties, and before the first one; from the last property to the first. A
        // property's value is written once, however many of those before it are left out.
        let some = self.grammar.reserve();
        let none = self.grammar.reserve();
        let (mut behind, mut before) = (vec![Expr::text("}")], vec![Expr::text("}")]);
        if let Some((name, value)) = extra {
            let pair = [name, json::separator(":", self.spacing), Expr::Call(value), Expr::Call(some)];
            let pair = self.grammar.add(Expr::Seq(pair.into()));
            behind.push(Expr::Seq(vec![json::separator(",", self.spacing), Expr::Call(pair)]));
            before.push(Expr::Call(pair));
        }
        self.grammar.rules[some] = Expr::Alt(behind);
        self.grammar.rules[none] = Expr::Alt(before);
        let (mut some, mut none) = (some, none);
        for property in properties.iter().rev() {
            let colon = json::separator(":", self.spacing);
            let pair = vec![json::name_of(property.name), colon, Expr::Call(property.value), Expr::Call(some)];
            let pair = self.grammar.add(Expr::Seq(pair));
            let mut behind = vec![Expr::Seq(vec![json::separator(",", self.spacing), Expr::Call(pair)])];
            let mut before = vec![Expr::Call(pair)];
            if !property.required {
                behind.push(Expr::Call(some));
                before.push(Expr::Call(none));
            }
            some = self.grammar.add(Expr::Alt(behind));
            none = self.grammar.add(Expr::Alt(before));
        }
        Ok(Expr::Seq(vec![Expr::text("{"), Expr::Call(none)]))
    }

    fn properties(&mut self, schema: &'a Map<String, Value>, path: &str) -> Result<Vec<Property<'a>>, Refused> {
        let required: Vec<&str> = match schema.get("required") {
            None => Vec::new(),
            Some(Value::Array(names)) if names.iter().all(Value::is_string) => {
                names.iter().filter_map(Value::as_str).collect()
            }
            Some(_) => return refuse(path, "required is a list of names"),
        };
        let named = match schema.get("properties") {
            None => None,
            Some(Value::Object(named)) => Some(named),
            Some(_) => return refuse(path, "properties is an object"),
        };
        let mut missing: HashSet<&str> = required.iter().copied().collect();
        let mut properties = Vec::new();
        for (name, value) in named.into_iter().flatten() {
            let value = self.value(value, &format!("{path}/properties/{name}"))?;
            let value = self.grammar.add(value);
            properties.push(Property { name, value, required: missing.remove(name.as_str()) });
        }
        // A property that is required and not described is like any other that is not described.
        for name in required {
            if !missing.remove(name) {
                continue;
            }
            let value = match schema.get("additionalProperties") {
                Some(Value::Bool(false)) => {
                    return refuse(path, format!("{name:?} is required, not described, and nothing else is allowed"));
                }
                Some(value) => self.value(value, &format!("{path}/additionalProperties"))?,
                None => self.any_value()?,
            };
            properties.push(Property { name, value: self.grammar.add(value), required: true });
        }
        if schema.contains_key("propertyNames") && !properties.is_empty() {
            return refuse(path, "propertyNames beside properties is not supported");
        }
        Ok(properties)
    }

    /// The name and the value of properties that the schema does not name, where it asks for them.
    fn extra(
        &mut self,
        schema: &'a Map<String, Value>,
        properties: &[Property<'_>],
        path: &str,
    ) -> Result<Option<(Expr, usize)>, Refused> {
        let value = match (schema.get("additionalProperties"), schema.get("propertyNames")) {
            (None, None) | (Some(Value::Bool(false)), _) => return Ok(None),
            (None, Some(_)) => self.any_value()?,
            (Some(value), _) => self.value(value, &format!("{path}/additionalProperties"))?,
        };
        // Each name is written in one way only, so that none of those described can come in disguise.
        let names = match schema.get("propertyNames") {
            Some(names) => self.names(names, &format!("{path}/propertyNames"))?,
            None => None,
        };
        let names = match names {
            Some(names) => names,
            None => json::of_length(0, None, self.budget)?,
        };
        let described = properties.iter().map(|property| contents_of(property.name));
        let names = subtract(&names, &Expr::Alt(described.collect()).compile(self.budget)?, self.budget)?;
        Ok(Some((json::string_of(names), self.grammar.add(value))))
    }

    /// The names that a schema of names accepts; `None` where any will do.
    fn names(&self, schema: &Value, path: &str) -> Result<Option<Dfa>, Refused> {
        let schema = match schema {
            Value::Bool(true) => return Ok(None),
            Value::Object(schema) => schema,
            _ => return refuse(path, "the names of properties have a schema of strings"),
        };
        if let Some(Value::Array(names)) = schema.get("enum").filter(|_| schema.len() == 1) {
            let names = names.iter().filter_map(Value::as_str).map(contents_of);
            return Expr::Alt(names.collect()).compile(self.budget).map(Some);
        }
        let kept = |keyword: &&String| STRING.contains(&keyword.as_str()) || ANNOTATIONS.contains(&keyword.as_str());
        let of_strings = schema.get("type").is_none_or(|kind| kind == "string");
        match schema.keys().find(|keyword| !kept(keyword) && *keyword != "type") {
            Some(keyword) => refuse(path, format!("{keyword} is not supported in the names of properties")),
            None if !of_strings => refuse(path, "names of properties are strings"),
            None => string::contents(schema, path, self.budget),
        }
    }

    /// Bounds on the number of properties are kept where they hold by themselves.
    fn check_counts(
        &self,
        schema: &Map<String, Value>,
        properties: &[Property<'_>],
        extra: bool,
        path: &str,
    ) -> Result<(), Refused> {
        let required = properties.iter().filter(|property| property.required).count() as u64;
        if count(schema, "minProperties", path)?.is_some_and(|least| least > required) {
            return refuse(path, "minProperties above the number of required properties is not supported");
        }
        let most = if extra { u64::MAX } else { properties.len() as u64 };
        if count(schema, "maxProperties", path)?.is_some_and(|limit| limit < most) {
            return refuse(path, "maxProperties below the number of possible properties is not supported");
        }
        Ok(())
    }
}

/// A text as it stands between quotes.
fn contents_of(text: &str) -> Expr {
    let quoted = Value::from(text).to_string();
    Expr::text(&quoted[1..quoted.len() - 1])
}
