use serde_json::{Map, Value};

use super::{COUNT, Compiler, count, refuse};
use crate::{Refused, automaton::Expr, json};

impl<'a> Compiler<'a> {
    /// Arrays that a schema accepts.
    pub(super) fn array(&mut self, schema: &'a Map<String, Value>, path: &str) -> Result<Expr, Refused> {
        if schema.get("uniqueItems").is_some_and(|unique| *unique != Value::Bool(false)) {
            return refuse(path, "uniqueItems is not supported");
        }
        let first = match schema.get("prefixItems") {
            Some(Value::Array(first)) => first.as_slice(),
            Some(_) => return refuse(path, "prefixItems is not a list"),
            None => &[],
        };
        let (least, most) = (count(schema, "minItems", path)?.unwrap_or(0), count(schema, "maxItems", path)?);
        let mut items = Vec::new();
        for (at, item) in first.iter().enumerate() {
            let item = self.value(item, &format!("{path}/prefixItems/{at}"))?;
            items.push(self.grammar.add(item));
        }
        let rest = match schema.get("items") {
            Some(Value::Bool(false)) => None,
            // Items behind those listed come only if the schema asks for them.
            None if least <= first.len() as u64 && !first.is_empty() => None,
            None => Some(self.any()?.value),
            Some(Value::Array(_)) => return refuse(path, "items is a list; call it prefixItems"),
            Some(item) => {
                let item = self.value(item, &format!("{path}/items"))?;
                Some(self.grammar.add(item))
            }
        };
        let most = match rest {
            None => Some(most.unwrap_or(u64::MAX).min(first.len() as u64)),
            Some(_) => most,
        };
        if most.is_some_and(|most| most < least) {
            return refuse(path, format!("no array can have {least} items here"));
        }
        // Positions from here on are alike.
        let alike = most.unwrap_or(least.max(first.len() as u64));
        if alike > COUNT {
            return refuse(path, format!("arrays of more than {COUNT} items are not supported"));
        }
        let item_at = |at: u64| items.get(at as usize).copied().or(rest);
        let comma = || json::separator(",", self.spacing);
        // What may stand behind each number of items, from the last to the first.
        let close = || Expr::text("]");
        let tail = self.grammar.reserve();
        self.grammar.rules[tail] = match rest.filter(|_| most.is_none()) {
            Some(item) if alike > 0 => {
                Expr::Alt(vec![close(), Expr::Seq(vec![comma(), Expr::Call(item), Expr::Call(tail)])])
            }
            Some(item) => {
                let again = self.grammar.reserve();
                self.grammar.rules[again] =
                    Expr::Alt(vec![close(), Expr::Seq(vec![comma(), Expr::Call(item), Expr::Call(again)])]);
                Expr::Alt(vec![close(), Expr::Seq(vec![Expr::Call(item), Expr::Call(again)])])
            }
            None => close(),
        };
        let mut tail = tail;
        for at in (0..alike).rev() {
            let Some(item) = item_at(at) else { continue };
            let mut next = vec![Expr::Call(item), Expr::Call(tail)];
            if at > 0 {
                next.insert(0, comma());
            }
            let mut ways = vec![Expr::Seq(next)];
            if at >= least {
                ways.push(close());
            }
            tail = self.grammar.add(Expr::Alt(ways));
        }
        Ok(Expr::Seq(vec![Expr::text("["), Expr::Call(tail)]))
    }
}
