use std::collections::HashMap;

use super::{Budget, RAW_STATES, minimize::minimize, too_large};
use crate::Refused;

/// No state: from here the text cannot be completed.
pub(crate) const DEAD: u16 = u16::MAX;

/// A minimal deterministic automaton over bytes. State 0 is the start; a state's successors never have a lower number
/// unless they can lead back to it. From every state an accepting one can be reached, unless the automaton accepts
/// nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dfa {
    /// The class of every byte: bytes of one class lead to the same states everywhere.
    pub(super) classes: Vec<u8>,
    /// The number of classes.
    pub(super) width: usize,
    pub(super) table: Vec<u16>,
    pub(super) accepting: Vec<bool>,
}

impl Dfa {
    pub(crate) fn len(&self) -> usize {
        self.accepting.len()
    }

    pub(crate) fn width(&self) -> usize {
        self.width
    }

    pub(crate) fn class(&self, byte: u8) -> usize {
        self.classes[byte as usize] as usize
    }

    pub(crate) fn step(&self, state: u16, class: usize) -> u16 {
        self.table[state as usize * self.width + class]
    }

    pub(crate) fn next(&self, state: u16, byte: u8) -> u16 {
        self.step(state, self.class(byte))
    }

    pub(crate) fn accepts(&self, state: u16) -> bool {
        self.accepting[state as usize]
    }

    /// The memory that it takes.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(self.table.as_slice()) + self.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.accepting.contains(&true)
    }

    /// True if the automaton accepts a text.
    pub(crate) fn matches(&self, text: &[u8]) -> bool {
        let end = text.iter().try_fold(0, |state, &byte| Some(self.next(state, byte)).filter(|&next| next != DEAD));
        end.is_some_and(|state| self.accepts(state))
    }
}

/// Collects the states of an automaton by the keys that tell them apart, in the order in which they are met.
pub(crate) struct DfaBuilder<K> {
    ids: HashMap<K, u32>,
    keys: Vec<K>,
    classes: Vec<u8>,
    width: usize,
    table: Vec<u32>,
    accepting: Vec<bool>,
}

/// No state in a table under construction.
pub(super) const NONE: u32 = u32::MAX;

impl<K: Clone + Eq + std::hash::Hash> DfaBuilder<K> {
    /// An automaton over classes of bytes, with its start state.
    pub(crate) fn new(classes: Vec<u8>, start: K) -> Self {
        let width = classes.iter().max().map_or(0, |&class| class as usize + 1);
        let (table, accepting) = (Vec::new(), Vec::new());
        Self { ids: HashMap::from([(start.clone(), 0)]), keys: vec![start], classes, width, table, accepting }
    }

    /// Asks `expand` for every state whether it accepts and for its successor by class.
    pub(crate) fn build(
        mut self,
        budget: &Budget,
        mut expand: impl FnMut(&K, &mut Vec<Option<K>>) -> Result<bool, Refused>,
    ) -> Result<Dfa, Refused> {
        let mut successors = Vec::new();
        while self.accepting.len() < self.keys.len() {
            let key = self.keys[self.accepting.len()].clone();
            successors.clear();
            let accepts = expand(&key, &mut successors)?;
            debug_assert_eq!(successors.len(), self.width);
            self.accepting.push(accepts);
            budget.spend(self.width)?;
            for next in successors.drain(..) {
                let id = match next {
                    None => NONE,
                    Some(key) => match self.ids.get(&key) {
                        Some(&id) => id,
                        None => {
                            let id = self.keys.len();
                            if id >= RAW_STATES {
                                return Err(too_large("the states of its automaton", RAW_STATES));
                            }
                            self.ids.insert(key.clone(), id as u32);
                            self.keys.push(key);
                            id as u32
                        }
                    },
                };
                self.table.push(id);
            }
        }
        minimize(self.classes, self.width, &self.table, &self.accepting)
    }
}
