use std::sync::Arc;

use super::{Budget, DEAD, Dfa, NODES, determinize, minimize::components, too_large};
use crate::Refused;

/// A set of byte strings.
#[derive(Clone, Debug)]
pub(crate) enum Expr {
    /// One given string.
    Bytes(Vec<u8>),
    /// One byte out of ranges, both ends included.
    Class(Vec<(u8, u8)>),
    Seq(Vec<Expr>),
    /// One of several; none of none.
    Alt(Vec<Expr>),
    /// A repetition with its least and its greatest count.
    Repeat(Box<Expr>, u32, Option<u32>),
    /// A rule of the grammar, by number.
    Call(usize),
    /// All strings that an automaton accepts.
    Dfa(Arc<Dfa>),
    /// The empty string, at the start of the text only.
    Start,
    /// The empty string, at the end of the text only.
    End,
}

impl Expr {
    pub(crate) fn text(text: impl Into<Vec<u8>>) -> Self {
        Self::Bytes(text.into())
    }

    pub(crate) fn empty() -> Self {
        Self::Seq(Vec::new())
    }

    pub(crate) fn never() -> Self {
        Self::Alt(Vec::new())
    }

    pub(crate) fn optional(self) -> Self {
        Self::Repeat(Box::new(self), 0, Some(1))
    }

    pub(crate) fn repeat(self, least: u32, most: Option<u32>) -> Self {
        Self::Repeat(Box::new(self), least, most)
    }

    /// The minimal automaton of an expression without calls.
    pub(crate) fn compile(self, budget: &Budget) -> Result<Dfa, Refused> {
        let mut grammar = Grammar::default();
        grammar.root = grammar.add(self);
        Ok(determinize(&grammar, 0, budget)?.0)
    }

    /// The same strings as one automaton, so that copies of them are small.
    pub(crate) fn leaf(self, budget: &Budget) -> Result<Self, Refused> {
        Ok(Self::Dfa(Arc::new(self.compile(budget)?)))
    }
}

/// Rules that may call each other and themselves.
#[derive(Debug, Default)]
pub(crate) struct Grammar {
    pub(crate) rules: Vec<Expr>,
    pub(crate) root: usize,
}

impl Grammar {
    pub(crate) fn add(&mut self, rule: Expr) -> usize {
        self.rules.push(rule);
        self.rules.len() - 1
    }

    /// A rule whose body is set later with [`Grammar::rules`].
    pub(crate) fn reserve(&mut self) -> usize {
        self.add(Expr::never())
    }

    /// The group of rules that each belongs to: rules of one group can come to call each other.
    fn groups(&self) -> Vec<usize> {
        fn calls(expr: &Expr, found: &mut Vec<usize>) {
            match expr {
                Expr::Seq(parts) | Expr::Alt(parts) => parts.iter().for_each(|part| calls(part, found)),
                Expr::Repeat(body, ..) => calls(body, found),
                Expr::Call(rule) => found.push(*rule),
                _ => {}
            }
        }
        let called = |rule: usize| {
            let mut found = Vec::new();
            calls(&self.rules[rule], &mut found);
            found.into_iter()
        };
        components(self.rules.len(), called)
    }
}

/// The place where a rule ends: what follows stands on the stack.
pub(crate) const RETURN: u32 = 0;

/// A condition on a jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    Always,
    Start,
    End,
}

/// A place in a rule: at most one of bytes to read, jumps, and a call.
#[derive(Debug, Default)]
pub(crate) struct Node {
    pub(crate) bytes: Vec<(u8, u8, u32)>,
    pub(crate) jumps: Vec<(When, u32)>,
    pub(crate) call: Option<Call>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) rule: u32,
    /// The place to return to.
    pub(crate) next: u32,
    /// The rule called can come to call the caller.
    pub(crate) nests: bool,
}

/// All rules as one graph.
pub(crate) struct Graph {
    pub(crate) nodes: Vec<Node>,
    /// The first place of every rule.
    pub(crate) entries: Vec<u32>,
}

impl Graph {
    pub(crate) fn new(grammar: &Grammar, budget: &Budget) -> Result<Self, Refused> {
        let groups = grammar.groups();
        let mut graph = Self { nodes: vec![Node::default()], entries: Vec::new() };
        for (rule, body) in grammar.rules.iter().enumerate() {
            let first = graph.nodes.len();
            let entry = graph.build(body, RETURN)?;
            budget.spend(graph.nodes.len() - first)?;
            graph.entries.push(entry);
            for call in graph.nodes[first..].iter_mut().filter_map(|node| node.call.as_mut()) {
                call.nests = groups[call.rule as usize] == groups[rule];
            }
        }
        Ok(graph)
    }

    fn add(&mut self, node: Node) -> Result<u32, Refused> {
        if self.nodes.len() >= NODES {
            return Err(too_large("its parts, with every repetition written out,", NODES));
        }
        self.nodes.push(node);
        Ok(self.nodes.len() as u32 - 1)
    }

    /// The place from which `expr` and then `next` is read.
    fn build(&mut self, expr: &Expr, next: u32) -> Result<u32, Refused> {
        match expr {
            Expr::Bytes(bytes) => (bytes.iter().rev())
                .try_fold(next, |next, &byte| self.add(Node { bytes: vec![(byte, byte, next)], ..Node::default() })),
            Expr::Class(ranges) => {
                let bytes = ranges.iter().map(|&(low, high)| (low, high, next)).collect();
                self.add(Node { bytes, ..Node::default() })
            }
            Expr::Seq(parts) => parts.iter().rev().try_fold(next, |next, part| self.build(part, next)),
            Expr::Alt(parts) => {
                let ways = parts.iter().map(|part| self.build(part, next)).collect::<Result<Vec<_>, _>>()?;
                self.fork(ways)
            }
            Expr::Repeat(body, least, most) => {
                let mut entry = match most {
                    None => {
                        let again = self.fork(Vec::new())?;
                        let body = self.build(body, again)?;
                        self.nodes[again as usize].jumps = vec![(When::Always, body), (When::Always, next)];
                        again
                    }
                    Some(most) => (*least..*most).try_fold(next, |entry, _| {
                        let body = self.build(body, entry)?;
                        self.fork(vec![body, next])
                    })?,
                };
                for _ in 0..*least {
                    let before = self.nodes.len();
                    entry = self.build(body, entry)?;
                    // An empty body adds nothing however often it is repeated.
                    if self.nodes.len() == before {
                        break;
                    }
                }
                Ok(entry)
            }
            Expr::Call(rule) => {
                self.add(Node { call: Some(Call { rule: *rule as u32, next, nests: false }), ..Node::default() })
            }
            Expr::Start => self.add(Node { jumps: vec![(When::Start, next)], ..Node::default() }),
            Expr::End => self.add(Node { jumps: vec![(When::End, next)], ..Node::default() }),
            Expr::Dfa(dfa) => self.embed(dfa, next),
        }
    }

    fn fork(&mut self, ways: Vec<u32>) -> Result<u32, Refused> {
        self.add(Node { jumps: ways.into_iter().map(|way| (When::Always, way)).collect(), ..Node::default() })
    }

    /// Each state becomes a place that reads bytes, and where it accepts a fork to it and to `next`.
    fn embed(&mut self, dfa: &Dfa, next: u32) -> Result<u32, Refused> {
        let mut places = Vec::with_capacity(dfa.len());
        let mut readers = Vec::with_capacity(dfa.len());
        for state in 0..dfa.len() {
            let reader = self.add(Node::default())?;
            readers.push(reader);
            places.push(if dfa.accepts(state as u16) { self.fork(vec![reader, next])? } else { reader });
        }
        for (state, &reader) in readers.iter().enumerate() {
            let mut bytes: Vec<(u8, u8, u32)> = Vec::new();
            for byte in 0..=255u8 {
                match dfa.next(state as u16, byte) {
                    DEAD => {}
                    to => match bytes.last_mut() {
                        Some(last) if last.1.checked_add(1) == Some(byte) && last.2 == places[to as usize] => {
                            last.1 = byte;
                        }
                        _ => bytes.push((byte, byte, places[to as usize])),
                    },
                }
            }
            self.nodes[reader as usize].bytes = bytes;
        }
        Ok(places[0])
    }
}
