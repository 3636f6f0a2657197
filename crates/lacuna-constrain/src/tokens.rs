use std::collections::HashMap;

use crate::{
    Refused, Vocabulary,
    automaton::{DEAD, Dfa, group},
    bits::Rows,
};

/// Most entries of the transitions of all tokens from all states.
const MOVES: usize = 4_000_000;
/// Different effects of tokens and their prefixes.
const EFFECTS: usize = 1 << 16;
/// Classes with more tokens than one in this many of the vocabulary are kept as bit sets.
const DENSE: usize = 64;

/// The class of tokens that fit nowhere.
pub(crate) const UNUSABLE: u32 = 0;
/// The class of end tokens.
pub(crate) const END: u32 = 1;

/// An automaton whose transitions are tokens.
///
/// Tokens that do the same to every state form a class. There are few classes, because most tokens either fit nowhere
/// or stand for any text inside some string; all work but the last step is done on classes.
#[derive(Debug)]
pub(crate) struct TokenAutomaton {
    /// The number of states. The last one is behind the first end token.
    pub(crate) states: usize,
    pub(crate) accepting: Vec<bool>,
    pub(crate) class_of: Vec<u32>,
    /// Transitions of each class, sorted by the state left: pairs of state and next state.
    moves: Lists<(u16, u16)>,
    /// The tokens of each class.
    members: Lists<u32>,
    /// Bit sets of the tokens of large classes, and which class has which.
    dense: Rows<u32>,
    dense_of: Vec<Option<u32>>,
    /// Next states of each state with the set of classes that lead there.
    pub(crate) edges: Lists<(u16, u32)>,
    /// Sets of classes, each once.
    pub(crate) sets: Lists<u32>,
    /// States that any token can lead to.
    pub(crate) forward: Links,
    /// States that any token can have come from; state `s` has the number `states - 1 - s`.
    pub(crate) backward: Links,
}

/// The neighbours of every state, and the states that are their own neighbours. Neighbours have higher numbers, loops
/// aside.
#[derive(Debug)]
pub(crate) struct Links {
    pub(crate) next: Lists<u16>,
    pub(crate) looped: Vec<bool>,
}

impl Links {
    fn new(states: usize, pairs: impl Iterator<Item = (u32, u32)> + Clone) -> Self {
        let mut looped = vec![false; states];
        pairs.clone().filter(|(from, to)| from == to).for_each(|(from, _)| looped[from as usize] = true);
        let (first, items) = group(states, pairs.filter(|(from, to)| from != to));
        Self { next: Lists { first, items: items.into_iter().map(|to| to as u16).collect() }, looped }
    }
}

/// Lists in one piece of memory.
#[derive(Debug)]
pub(crate) struct Lists<T> {
    first: Vec<u32>,
    items: Vec<T>,
}

impl<T: Copy> Lists<T> {
    fn new() -> Self {
        Self { first: vec![0], items: Vec::new() }
    }

    fn push(&mut self, items: impl IntoIterator<Item = T>) {
        self.items.extend(items);
        self.first.push(self.items.len() as u32);
    }

    pub(crate) fn len(&self) -> usize {
        self.first.len() - 1
    }

    fn bytes(&self) -> usize {
        size_of_val(self.first.as_slice()) + size_of_val(self.items.as_slice())
    }

    pub(crate) fn get(&self, at: usize) -> &[T] {
        &self.items[self.first[at] as usize..self.first[at + 1] as usize]
    }
}

impl TokenAutomaton {
    pub(crate) fn new(dfa: &Dfa, vocabulary: &Vocabulary) -> Result<Self, Refused> {
        let end = dfa.len() as u16;
        let states = dfa.len() + 1;
        let mut effects = Effects::new(dfa);
        // Classes in the order of their first token; `class_of_effect` has 0 for effects that no token has yet.
        let mut class_of_effect: Vec<u32> = Vec::new();
        let mut class_of = vec![UNUSABLE; vocabulary.len()];
        vocabulary.end().iter().for_each(|&token| class_of[token as usize] = END);
        let mut moves = Lists::new();
        moves.push([]);
        moves.push((0..end).filter(|&state| dfa.accepts(state)).chain([end]).map(|state| (state, end)));
        let mut path = vec![IDENTITY];
        for (token, bytes, shared) in vocabulary.walk() {
            path.truncate(shared + 1);
            let mut effect = path[path.len() - 1];
            for &byte in &bytes[path.len() - 1..] {
                effect = effects.then(dfa, effect, dfa.class(byte))?;
                path.push(effect);
                if effect == NOTHING {
                    break;
                }
            }
            if effect == NOTHING {
                // The next token may share more than was walked.
                path.resize(bytes.len() + 1, NOTHING);
                continue;
            }
            class_of_effect.resize(effects.lists.len(), UNUSABLE);
            let class = &mut class_of_effect[effect as usize];
            if *class == UNUSABLE {
                *class = moves.len() as u32;
                moves.push(effects.lists.get(effect as usize).iter().copied());
                if moves.items.len() > MOVES {
                    return Err(Refused::new(format!(
                        "the constraint is too large for this vocabulary: the moves of its tokens exceed the limit of \
                         {MOVES}; simplify it"
                    )));
                }
            }
            class_of[token as usize] = *class;
        }
        drop(effects);
        let classes = moves.len();
        let by_class = class_of.iter().enumerate().map(|(token, &class)| (class, token as u32));
        let (first, items) = group(classes, by_class);
        let members = Lists { first, items };
        let mut dense = Rows::new(0, vocabulary.len().div_ceil(32));
        let dense_of = (0..classes)
            .map(|class| {
                let tokens = members.get(class);
                (class as u32 != UNUSABLE && tokens.len() > vocabulary.len() / DENSE).then(|| {
                    let row = dense.push();
                    tokens.iter().for_each(|&token| dense.row_mut(row)[token as usize / 32] |= 1 << (token % 32));
                    row as u32
                })
            })
            .collect();
        let (edges, sets) = edges(states, &moves);
        let pairs =
            (0..states).flat_map(|from| edges.get(from).iter().map(move |&(to, _)| (from as u32, u32::from(to))));
        let last = states as u32 - 1;
        let forward = Links::new(states, pairs.clone());
        let backward = Links::new(states, pairs.map(|(from, to)| (last - to, last - from)));
        let accepting = (0..states as u16).map(|state| state == end || dfa.accepts(state)).collect();
        Ok(Self { states, accepting, class_of, moves, members, dense, dense_of, edges, sets, forward, backward })
    }

    /// Transitions of a class: pairs of state and next state, sorted by state.
    pub(crate) fn moves(&self, class: u32) -> &[(u16, u16)] {
        self.moves.get(class as usize)
    }

    /// The memory that it takes.
    pub(crate) fn bytes(&self) -> usize {
        let tables = self.class_of.len() * 4 + self.dense.bytes() + self.states;
        let lists = self.moves.bytes() + self.members.bytes() + self.edges.bytes() + self.sets.bytes();
        tables + lists + self.forward.next.bytes() + self.backward.next.bytes()
    }

    pub(crate) fn classes(&self) -> usize {
        self.moves.len()
    }

    /// Puts a class's tokens into a bit set, or takes them out of it.
    pub(crate) fn toggle(&self, class: usize, words: &mut [u32]) {
        match self.dense_of[class] {
            Some(row) => words.iter_mut().zip(self.dense.row(row as usize)).for_each(|(word, more)| *word ^= more),
            None => {
                for &token in self.members.get(class) {
                    words[token as usize / 32] ^= 1 << (token % 32);
                }
            }
        }
    }
}

/// The next states of every state, and the interned sets of classes that lead there.
fn edges(states: usize, moves: &Lists<(u16, u16)>) -> (Lists<(u16, u32)>, Lists<u32>) {
    let all = || (0..moves.len()).flat_map(|class| moves.get(class).iter().map(move |m| (class, m)));
    let mut first = vec![0usize; states + 1];
    all().for_each(|(_, m)| first[m.0 as usize + 1] += 1);
    (0..states).for_each(|state| first[state + 1] += first[state]);
    let mut at = first.clone();
    let mut by_state = vec![(0u16, 0u32); first[states]];
    for (class, &(from, to)) in all() {
        by_state[at[from as usize]] = (to, class as u32);
        at[from as usize] += 1;
    }
    let (mut edges, mut sets) = (Lists::new(), Lists::new());
    let mut known: HashMap<Box<[u32]>, u32> = HashMap::new();
    for state in 0..states {
        let here = &mut by_state[first[state]..first[state + 1]];
        here.sort_unstable();
        edges.push(here.chunk_by(|a, b| a.0 == b.0).map(|group| {
            let classes: Box<[u32]> = group.iter().map(|&(_, class)| class).collect();
            let set = *known.entry(classes).or_insert_with_key(|classes| {
                sets.push(classes.iter().copied());
                sets.len() as u32 - 1
            });
            (group[0].0, set)
        }));
    }
    (edges, sets)
}

/// The effect of the empty string.
const IDENTITY: u32 = 0;
/// The effect of a string that fits nowhere.
const NOTHING: u32 = 1;

/// Effects of byte strings on the states of an automaton: pairs of state and next state, each list of pairs once. An
/// effect followed by a byte is looked up after its first time, so that the tokens of a vocabulary cost a table look-up
/// for each node of their trie.
struct Effects {
    lists: Lists<(u16, u16)>,
    known: HashMap<Box<[(u16, u16)]>, u32>,
    /// The effect that follows by effect and class of byte.
    then: Vec<u32>,
    width: usize,
}

const UNKNOWN: u32 = u32::MAX;

impl Effects {
    fn new(dfa: &Dfa) -> Self {
        let mut effects = Self { lists: Lists::new(), known: HashMap::new(), then: Vec::new(), width: dfa.width() };
        effects.intern((0..dfa.len() as u16).map(|state| (state, state)).collect());
        effects.intern(Box::new([]));
        effects
    }

    fn intern(&mut self, list: Box<[(u16, u16)]>) -> u32 {
        let next = self.lists.len() as u32;
        let lists = &mut self.lists;
        let id = *self.known.entry(list).or_insert_with_key(|list| {
            lists.push(list.iter().copied());
            next
        });
        self.then.resize(self.lists.len() * self.width, UNKNOWN);
        id
    }

    fn then(&mut self, dfa: &Dfa, effect: u32, class: usize) -> Result<u32, Refused> {
        let at = effect as usize * self.width + class;
        if self.then[at] == UNKNOWN {
            let list = self.lists.get(effect as usize).iter().filter_map(|&(from, to)| {
                let next = dfa.step(to, class);
                (next != DEAD).then_some((from, next))
            });
            self.then[at] = self.intern(list.collect());
            if self.lists.len() > EFFECTS || self.lists.items.len() > MOVES {
                return Err(Refused::new(format!(
                    "the constraint is too large for this vocabulary: its tokens act on it in more than {EFFECTS} \
                     different ways, or in more than {MOVES} moves; simplify it"
                )));
            }
        }
        Ok(self.then[at])
    }
}
