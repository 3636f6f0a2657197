//! JSON values of any kind.

use std::sync::Arc;

use serde_json::Value;

use crate::{
    Refused, Spacing,
    automaton::{Budget, Dfa, Expr, Grammar},
    chars::{self, Encoding},
    number,
};

/// A comma or a colon, and the space that may follow it.
pub(crate) fn separator(mark: &str, spacing: Spacing) -> Expr {
    match spacing {
        Spacing::Compact => Expr::text(mark),
        Spacing::Loose => Expr::Seq(vec![Expr::text(mark), Expr::text(" ").optional()]),
    }
}

/// A string with given contents.
pub(crate) fn quoted(contents: Expr) -> Expr {
    Expr::Seq(vec![Expr::text("\""), contents, Expr::text("\"")])
}

/// Any string, with every escape that JSON knows but halves of surrogate pairs.
pub(crate) fn any_string(budget: &Budget) -> Result<Expr, Refused> {
    let hex = || Expr::Class(vec![(b'0', b'9'), (b'A', b'F'), (b'a', b'f')]);
    let code = Expr::Alt(vec![
        Expr::Seq(vec![Expr::Class(vec![(b'0', b'9'), (b'A', b'C'), (b'E', b'F'), (b'a', b'c'), (b'e', b'f')]), hex()]),
        Expr::Seq(vec![Expr::Class(vec![(b'D', b'D'), (b'd', b'd')]), Expr::Class(vec![(b'0', b'7')])]),
    ]);
    let escaped = Expr::Alt(vec![Expr::text("\\/"), Expr::Seq(vec![Expr::text("\\u"), code, hex(), hex()])]);
    quoted(Expr::Alt(vec![chars::any(Encoding::Json, budget)?, escaped]).repeat(0, None)).leaf(budget)
}

/// Any object, the only rules of a grammar.
pub(crate) fn any_object(spacing: Spacing, budget: &Budget) -> Result<Grammar, Refused> {
    let mut grammar = Grammar::default();
    let any = Any::new(&mut grammar, spacing, budget)?;
    grammar.root = grammar.add(any.object());
    Ok(grammar)
}

/// Any value, the only rules of a grammar.
pub(crate) fn any_value(spacing: Spacing, budget: &Budget) -> Result<Grammar, Refused> {
    let mut grammar = Grammar::default();
    grammar.root = Any::new(&mut grammar, spacing, budget)?.value;
    Ok(grammar)
}

/// The rules for values of any kind.
#[derive(Clone, Debug)]
pub(crate) struct Any {
    pub(crate) value: usize,
    members: usize,
    items: usize,
}

impl Any {
    pub(crate) fn new(grammar: &mut Grammar, spacing: Spacing, budget: &Budget) -> Result<Self, Refused> {
        let any = Self { value: grammar.reserve(), members: grammar.reserve(), items: grammar.reserve() };
        let string = any_string(budget)?;
        let scalars =
            [string.clone(), number::any(budget)?, Expr::text("true"), Expr::text("false"), Expr::text("null")];
        grammar.rules[any.value] = Expr::Alt(scalars.into_iter().chain([any.object(), any.array()]).collect());
        grammar.rules[any.members] = Expr::Seq(vec![
            string,
            separator(":", spacing),
            Expr::Call(any.value),
            Expr::Alt(vec![Expr::text("}"), Expr::Seq(vec![separator(",", spacing), Expr::Call(any.members)])]),
        ]);
        grammar.rules[any.items] = Expr::Seq(vec![
            Expr::Call(any.value),
            Expr::Alt(vec![Expr::text("]"), Expr::Seq(vec![separator(",", spacing), Expr::Call(any.items)])]),
        ]);
        Ok(any)
    }

    pub(crate) fn object(&self) -> Expr {
        Expr::Seq(vec![Expr::text("{"), Expr::Alt(vec![Expr::text("}"), Expr::Call(self.members)])])
    }

    pub(crate) fn array(&self) -> Expr {
        Expr::Seq(vec![Expr::text("["), Expr::Alt(vec![Expr::text("]"), Expr::Call(self.items)])])
    }
}

/// One given value.
pub(crate) fn constant(value: &Value, spacing: Spacing) -> Expr {
    let list = |open: &str, parts: Vec<Expr>, close: &str| {
        let mut all = vec![Expr::text(open)];
        for (at, part) in parts.into_iter().enumerate() {
            if at > 0 {
                all.push(separator(",", spacing));
            }
            all.push(part);
        }
        all.push(Expr::text(close));
        Expr::Seq(all)
    };
    match value {
        Value::Array(items) => list("[", items.iter().map(|item| constant(item, spacing)).collect(), "]"),
        Value::Object(members) => {
            let member = |(name, value): (&String, &Value)| {
                Expr::Seq(vec![name_of(name), separator(":", spacing), constant(value, spacing)])
            };
            list("{", members.iter().map(member).collect(), "}")
        }
        scalar => Expr::text(scalar.to_string()),
    }
}

/// A property's name in quotes.
pub(crate) fn name_of(name: &str) -> Expr {
    Expr::text(Value::from(name).to_string())
}

/// The contents of strings of so many characters.
pub(crate) fn of_length(least: u32, most: Option<u32>, budget: &Budget) -> Result<Dfa, Refused> {
    chars::any(Encoding::Json, budget)?.repeat(least, most).compile(budget)
}

/// A string whose contents an automaton accepts.
pub(crate) fn string_of(contents: Dfa) -> Expr {
    quoted(Expr::Dfa(Arc::new(contents)))
}
