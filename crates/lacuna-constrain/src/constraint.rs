use std::sync::Arc;

use serde_json::Value;

use crate::{
    Refused, Vocabulary,
    automaton::{Budget, Dfa, Expr, Grammar, determinize},
    gbnf, json, pattern, schema,
    tokens::TokenAutomaton,
};

/// The states an automaton may have.
const STATES: usize = 1 << 14;
/// The states that unrolling recursion may add where no depth is asked for.
const UNROLLED_STATES: usize = 1 << 11;
/// The depth to which recursion is unrolled, within the limit on states, where no depth is asked for: at least and at most.
const LEAST_DEPTH: usize = 2;
const DEPTH: usize = 32;

/// The texts that are allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Constraint {
    /// A regular expression for the whole text, in the syntax of the `regex` crate. `\d`, `\w` and `\s` mean ASCII
    /// characters; `.` is any character but line ends, or any with `(?s)`.
    Regex(String),
    /// One of several texts.
    Choices(Vec<String>),
    /// JSON that a schema accepts. Properties come in the schema's order.
    JsonSchema(Value),
    /// JSON that a schema accepts, or any text that begins neither with `{` nor with a space.
    JsonSchemaOrText(Value),
    /// Any JSON object.
    JsonObject,
    /// Any JSON value.
    JsonValue,
    /// A context-free grammar in GBNF, the notation of llama.cpp; its first rule is called `root`.
    Grammar(String),
}

/// Whitespace in JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spacing {
    /// None.
    Compact,
    /// At most one space behind each comma and each colon between values.
    #[default]
    Loose,
}

/// Choices in compiling a constraint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Whitespace in JSON.
    pub spacing: Spacing,
    /// Most levels to which recursive rules, schemas and JSON values are nested. `None`: as deep as fits into a moderate
    /// number of states.
    pub depth: Option<usize>,
}

impl Constraint {
    /// The constraint as an automaton over a vocabulary's tokens.
    ///
    /// # Errors
    /// If the constraint cannot be read, asks for what cannot be guaranteed, matches no text, or is too large.
    pub fn compile(&self, vocabulary: &Vocabulary, options: &Options) -> Result<Arc<Compiled>, Refused> {
        let budget = Budget::new();
        let grammar = self.grammar(options.spacing, &budget)?;
        let (dfa, depth) = unroll(&grammar, options.depth, &budget)?;
        if dfa.is_empty() {
            return Err(Refused::new("the constraint matches no text at all"));
        }
        if dfa.len() > STATES {
            return Err(Refused::new(format!(
                "the constraint is too large: its automaton has {} states, the limit is {STATES}; simplify it",
                dfa.len()
            )));
        }
        let automaton = TokenAutomaton::new(&dfa, vocabulary)?;
        Ok(Arc::new(Compiled { dfa, automaton, depth }))
    }

    fn grammar(&self, spacing: Spacing, budget: &Budget) -> Result<Grammar, Refused> {
        let single = |expr| Grammar { rules: vec![expr], root: 0 };
        Ok(match self {
            Self::Regex(text) => single(pattern::whole(text, budget)?),
            Self::Choices(texts) => single(Expr::Alt(texts.iter().map(|text| Expr::text(text.as_str())).collect())),
            Self::JsonSchema(value) => schema::grammar(value, spacing, budget)?,
            Self::JsonSchemaOrText(value) => {
                let mut grammar = schema::grammar(value, spacing, budget)?;
                let text = pattern::whole(r"([^{\s](?s:.)*)?", budget)?;
                grammar.root = grammar.add(Expr::Alt(vec![Expr::Call(grammar.root), text]));
                grammar
            }
            Self::JsonObject => json::any_object(spacing, budget)?,
            Self::JsonValue => json::any_value(spacing, budget)?,
            Self::Grammar(text) => gbnf::parse(text, budget)?,
        })
    }

    /// The constraint as text, to look it up by.
    pub(crate) fn key(&self) -> String {
        match self {
            Self::JsonSchema(value) => format!("schema {value}"),
            Self::JsonSchemaOrText(value) => format!("schema or text {value}"),
            other => format!("{other:?}"),
        }
    }
}

/// A grammar's automaton, and the depth to which recursion was unrolled for it.
fn unroll(grammar: &Grammar, depth: Option<usize>, budget: &Budget) -> Result<(Dfa, Option<usize>), Refused> {
    if let Some(depth) = depth {
        let (dfa, cut) = determinize(grammar, depth, budget)?;
        return Ok((dfa, cut.then_some(depth)));
    }
    let (mut best, mut cut) = determinize(grammar, 0, budget)?;
    let (mut depth, mut growth) = (0, 0);
    let mut limit = best.len() + UNROLLED_STATES;
    while cut && depth < DEPTH {
        // A level adds at least as many states as the one before.
        if depth >= LEAST_DEPTH && best.len() + growth > limit && !best.is_empty() {
            break;
        }
        let (deeper, deeper_cut) = match determinize(grammar, depth + 1, budget) {
            Ok(deeper) => deeper,
            Err(refused) if best.is_empty() => return Err(refused),
            Err(_) => break,
        };
        if best.is_empty() {
            limit = deeper.len() + UNROLLED_STATES;
        } else if deeper.len() > if depth < LEAST_DEPTH { STATES } else { limit } {
            break;
        }
        growth = deeper.len().saturating_sub(best.len());
        (best, cut) = (deeper, deeper_cut);
        depth += 1;
    }
    Ok((best, cut.then_some(depth)))
}

/// A constraint compiled for a vocabulary. It does not change and can be shared by any number of canvases.
#[derive(Debug)]
pub struct Compiled {
    dfa: Dfa,
    automaton: TokenAutomaton,
    depth: Option<usize>,
}

impl Compiled {
    /// The depth to which recursion was unrolled; `None` where nothing is bounded.
    #[must_use]
    pub fn depth(&self) -> Option<usize> {
        self.depth
    }

    /// The number of states of the automaton.
    #[must_use]
    pub fn states(&self) -> usize {
        self.dfa.len()
    }

    /// Tells if a finished text fits.
    #[must_use]
    pub fn matches(&self, text: &[u8]) -> bool {
        self.dfa.matches(text)
    }

    /// The memory that it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.automaton.bytes() + self.dfa.bytes()
    }

    pub(crate) fn automaton(&self) -> &TokenAutomaton {
        &self.automaton
    }
}
