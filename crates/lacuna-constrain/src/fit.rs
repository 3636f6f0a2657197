use std::sync::Arc;

use crate::{
    Compiled, Impossible, NotAllowed,
    bits::{Rows, add, add_shared, get, is_zero, ones, reverse, set, words_for},
    reach::reach,
    shortest::shortest,
    tokens::TokenAutomaton,
    transpose::transpose,
};

/// Ending of a constrained part of a canvas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The text may be shorter than the canvas: what lies behind it is filled with end tokens.
    Padded,
    /// The text takes up the whole canvas, as in a gap inside a text: no end tokens.
    Exact,
}

/// A canvas, or a part of one, under a constraint: for every position the tokens with which the whole can still be
/// completed.
///
/// The canvas can always be completed: [`Fit::new`] refuses one that cannot, and [`Fit::commit`] a token that would make
/// it so.
#[derive(Clone, Debug)]
pub struct Fit {
    compiled: Arc<Compiled>,
    ending: Ending,
    canvas: Vec<Option<u32>>,
    /// Positions that are masked, and those that are not.
    masked: Vec<u64>,
    decided: Vec<u64>,
    /// Transitions of each decided position's token, sorted by the state they lead to.
    inverse: Vec<Box<[(u16, u16)]>>,
    /// For each state the positions before which it can stand, from the left.
    before: Rows<u64>,
    /// For each state the positions behind which it can stand, from the right.
    after: Rows<u64>,
    /// The classes of tokens allowed at each position.
    classes: Rows<u64>,
    /// The classes that are up to date with the canvas.
    classed: bool,
    /// Bit sets of tokens. Many positions allow the same, so there are fewer of them than positions.
    sets: Vec<TokenSet>,
    /// Counts the states of the canvas.
    version: u64,
}

#[derive(Clone, Debug)]
struct TokenSet {
    classes: Box<[u64]>,
    words: Arc<[u32]>,
    /// The last state of the canvas in which it was asked for.
    used: u64,
}

impl Fit {
    /// A canvas under a constraint. `canvas` holds the decided tokens and `None` for masks; it is the part of a larger
    /// canvas that the constraint is about, from its first to its last position.
    ///
    /// # Errors
    /// If no tokens at the masks meet the constraint.
    pub fn new(compiled: &Arc<Compiled>, canvas: &[Option<u32>], ending: Ending) -> Result<Self, Impossible> {
        let length = canvas.len();
        let automaton = compiled.automaton();
        let words = words_for(length);
        let mut fit = Self {
            compiled: compiled.clone(),
            ending,
            canvas: vec![None; length],
            masked: vec![0; words],
            decided: vec![0; words],
            inverse: vec![Box::default(); length],
            before: Rows::new(automaton.states, words),
            after: Rows::new(automaton.states, words),
            classes: Rows::new(length, automaton.classes().div_ceil(64)),
            classed: false,
            sets: Vec::new(),
            version: 0,
        };
        for (position, &token) in canvas.iter().enumerate() {
            fit.write(position, token);
        }
        if fit.refresh() { Ok(fit) } else { Err(Impossible { length, shortest: fit.shortest() }) }
    }

    /// The number of positions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.canvas.len()
    }

    /// True for a canvas without positions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.canvas.is_empty()
    }

    /// The canvas as it stands.
    #[must_use]
    pub fn canvas(&self) -> &[Option<u32>] {
        &self.canvas
    }

    /// The tokens that may stand at a position, all others being as they are, as a bit set: bit `t % 32` of word `t / 32`
    /// for token `t`. Never empty. For a decided position: the tokens that could replace the one there. Positions that allow the same
    /// share their set.
    ///
    /// # Panics
    /// If the canvas has no such position.
    pub fn allowed(&mut self, position: usize) -> &Arc<[u32]> {
        if !self.classed {
            self.class();
        }
        let automaton = self.compiled.automaton();
        let classes = self.classes.row(position);
        let same = self.sets.iter().position(|set| *set.classes == *classes);
        let at = same.or_else(|| self.sets.iter().position(|set| set.used != self.version)).unwrap_or_else(|| {
            let words = vec![0; automaton.class_of.len().div_ceil(32)].into();
            self.sets.push(TokenSet { classes: vec![0; classes.len()].into(), words, used: self.version });
            self.sets.len() - 1
        });
        let set = &mut self.sets[at];
        set.used = self.version;
        // Every token is of one class, so that a set turns into another by what is different in their classes.
        if *set.classes != *classes {
            let words = Arc::make_mut(&mut set.words);
            for (at, (old, &new)) in set.classes.iter_mut().zip(classes).enumerate() {
                for class in ones(&[*old ^ new]) {
                    automaton.toggle(at * 64 + class, words);
                }
                *old = new;
            }
        }
        &set.words
    }

    /// Says of one token what [`Fit::allowed`] says of all.
    ///
    /// # Panics
    /// If the canvas has no such position.
    #[must_use]
    pub fn allows(&self, position: usize, token: u32) -> bool {
        assert!(position < self.len(), "position {position} of a canvas of {} positions", self.len());
        let automaton = self.compiled.automaton();
        automaton.class_of.get(token as usize).is_some_and(|&class| {
            let stands = |&(from, to): &(u16, u16)| {
                get(self.before.row(from as usize), position) && get(self.after.row(to as usize), position)
            };
            automaton.moves(class).iter().any(stands)
        })
    }

    /// Writes a token, at a mask or over another token.
    ///
    /// # Errors
    /// If the canvas could not be completed with it; nothing has then changed.
    pub fn commit(&mut self, position: usize, token: u32) -> Result<(), NotAllowed> {
        if !self.allows(position, token) {
            return Err(NotAllowed { position, token });
        }
        if self.canvas[position] != Some(token) {
            self.write(position, Some(token));
            self.refresh();
        }
        Ok(())
    }

    /// Masks a position again.
    pub fn reopen(&mut self, position: usize) {
        if self.canvas[position].is_some() {
            self.write(position, None);
            self.refresh();
        }
    }

    fn write(&mut self, position: usize, token: Option<u32>) {
        let (word, bit) = (position / 64, 1 << (position % 64));
        self.canvas[position] = token;
        self.masked[word] &= !bit;
        self.decided[word] &= !bit;
        match token {
            None => {
                self.masked[word] |= bit;
                self.inverse[position] = Box::default();
            }
            Some(token) => {
                self.decided[word] |= bit;
                self.inverse[position] = match self.compiled.automaton().class_of.get(token as usize) {
                    Some(&class) => inverse(self.compiled.automaton(), class),
                    None => Box::default(),
                };
            }
        }
    }

    /// Transition of a state by the decided token at a position.
    fn follow(&self, position: usize, state: u16) -> Option<u16> {
        let automaton = self.compiled.automaton();
        let &class = automaton.class_of.get(self.canvas[position]? as usize)?;
        let moves = automaton.moves(class);
        moves.binary_search_by_key(&state, |&(from, _)| from).ok().map(|at| moves[at].1)
    }

    /// A state in which the text may end.
    fn ends(&self, state: usize) -> bool {
        let automaton = self.compiled.automaton();
        automaton.accepting[state] && (self.ending == Ending::Padded || state + 1 < automaton.states)
    }

    /// Brings the states up to date with the canvas; says whether it can be completed.
    fn refresh(&mut self) -> bool {
        self.classed = false;
        self.version += 1;
        let (length, words) = (self.len(), self.masked.len());
        let compiled = self.compiled.clone();
        let automaton = compiled.automaton();
        let mut before = std::mem::replace(&mut self.before, Rows::new(0, words));
        before.clear();
        set(before.row_mut(0), 0);
        let follow = |position, state| self.follow(position, state).into_iter();
        reach(&automaton.forward, &self.masked, &self.decided, length, follow, &mut before);
        self.before = before;

        // From the right, positions and states are counted from their other ends.
        let mut from_end = Rows::new(automaton.states, words);
        let last = automaton.states - 1;
        for state in (0..automaton.states).filter(|&state| self.ends(state)) {
            set(from_end.row_mut(last - state), 0);
        }
        let (mut masked, mut decided) = (vec![0; words], vec![0; words]);
        reverse(&self.masked, length, &mut masked);
        reverse(&self.decided, length, &mut decided);
        let follow = |position: usize, state: u16| {
            let moves = &self.inverse[length - 1 - position];
            let state = last as u16 - state;
            let first = moves.partition_point(|&(to, _)| to < state);
            moves[first..].iter().take_while(move |m| m.0 == state).map(move |&(_, from)| last as u16 - from)
        };
        reach(&automaton.backward, &masked, &decided, length, follow, &mut from_end);
        for state in 0..automaton.states {
            reverse(from_end.row(last - state), length, self.after.row_mut(state));
        }
        self.possible()
    }

    /// Says whether the first position can be passed.
    fn possible(&self) -> bool {
        match self.canvas.first() {
            None => self.ends(0),
            Some(Some(token)) => self.allows(0, *token),
            Some(None) => {
                let next = self.compiled.automaton().edges.get(0);
                next.iter().any(|&(to, _)| get(self.after.row(to as usize), 0))
            }
        }
    }

    /// Brings the classes allowed at every position up to date.
    fn class(&mut self) {
        let automaton = self.compiled.automaton();
        let words = self.masked.len();
        let mut of_set = Rows::<u64>::new(automaton.sets.len(), words);
        for from in 0..automaton.states {
            let before = self.before.row(from);
            if is_zero(before) {
                continue;
            }
            for &(to, classes) in automaton.edges.get(from) {
                add_shared(of_set.row_mut(classes as usize), before, self.after.row(to as usize));
            }
        }
        let mut of_class = Rows::<u64>::new(automaton.classes(), words);
        for classes in 0..automaton.sets.len() {
            let positions = of_set.row(classes);
            if !is_zero(positions) {
                for &class in automaton.sets.get(classes) {
                    add(of_class.row_mut(class as usize), positions);
                }
            }
        }
        transpose(&of_class, automaton.classes(), &mut self.classes, self.canvas.len());
        self.classed = true;
    }

    fn shortest(&self) -> Option<usize> {
        shortest(
            self.compiled.automaton(),
            &self.canvas,
            |position, state| self.follow(position, state),
            |state| self.ends(state),
        )
    }
}

/// Transitions of a class, sorted by the state they lead to: pairs of that state and the one before.
fn inverse(automaton: &TokenAutomaton, class: u32) -> Box<[(u16, u16)]> {
    let mut pairs: Vec<(u16, u16)> = automaton.moves(class).iter().map(|&(from, to)| (to, from)).collect();
    pairs.sort_unstable();
    pairs.into()
}
