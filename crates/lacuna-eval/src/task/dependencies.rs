//! Dependencies inside an answer, and measures of how a decoding order respects them.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// A value of an answer: where it stands, in bytes of the reference answer, and the values it needs, by their number.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Value(pub Vec<[usize; 2]>, pub Vec<usize>);

/// The dependencies of one answer.
#[derive(Clone, Debug)]
pub struct Dependencies {
    values: Vec<Dependent>,
    rule: Rule,
}

/// A value, with how many others must come one after the other before it.
#[derive(Clone, Debug)]
struct Dependent {
    places: Vec<Range<usize>>,
    level: usize,
}

#[derive(Clone, Debug)]
enum Rule {
    /// The values that each needs.
    Needs(Vec<Vec<usize>>),
    /// A cell needs whatever forces it.
    Singles(Grid),
}

/// Counts of respected and violated dependencies of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Respect {
    /// Values that depend on others.
    pub dependent: usize,
    /// Those of them that were decided before, or together with, something they need.
    pub early: usize,
    /// Pairs of values that an oracle would decide one after the other.
    pub pairs: usize,
    /// Pairs that were decided in the oracle's order, less those in the opposite order.
    pub agreeing: i64,
}

impl Dependencies {
    /// Of values that name what they need.
    pub(super) fn of_values(values: &[Value]) -> Self {
        let needs: Vec<Vec<usize>> = values.iter().map(|value| value.1.clone()).collect();
        let mut levels = vec![0; values.len()];
        // As many rounds as the longest chain can have.
        for _ in 0..values.len() {
            for (value, needs) in needs.iter().enumerate() {
                let level = needs.iter().filter_map(|&need| levels.get(need)).map(|level| level + 1).max();
                levels[value] = level.unwrap_or(0).min(values.len());
            }
        }
        let places = |value: &Value| value.0.iter().map(|&[start, end]| start..end).collect();
        let values = values.iter().zip(levels).map(|(value, level)| Dependent { places: places(value), level });
        Self { values: values.collect(), rule: Rule::Needs(needs) }
    }

    /// Of the cells of a puzzle that are not given.
    pub(super) fn of_grid(grid: Grid) -> Self {
        let levels = grid.levels();
        let cell = |&cell: &usize| Dependent { places: Vec::from([grid.place(cell)]), level: levels[cell] };
        Self { values: grid.open().iter().map(cell).collect(), rule: Rule::Singles(grid) }
    }

    /// Places in the order of the dependencies, as bytes of the reference answer of `length`: what depends on nothing first, from
    /// left to right, then the values by how much must come before them, each in its own equation first.
    pub fn oracle(&self, length: usize) -> Vec<usize> {
        let of_value = |at: usize| self.values.iter().any(|value| value.places.iter().any(|place| place.contains(&at)));
        let mut order: Vec<usize> = (0..length).filter(|&at| !of_value(at)).collect();
        let mut values: Vec<&Dependent> = self.values.iter().collect();
        values.sort_by_key(|value| value.level);
        order.extend(values.iter().flat_map(|value| value.places.iter().cloned().flatten()));
        order
    }

    /// Measures an order; `steps` has for each byte of the answer the step at which it was decided.
    pub fn respect(&self, steps: &[Option<usize>]) -> Respect {
        let step = |at: usize| steps.get(at).copied().flatten().unwrap_or(usize::MAX);
        let whole = |place: &Range<usize>| place.clone().map(step).max().unwrap_or(usize::MAX);
        // A value is known once it stands anywhere.
        let known: Vec<usize> =
            self.values.iter().map(|value| value.places.iter().map(whole).min().unwrap_or(usize::MAX)).collect();
        let (dependent, early) = match &self.rule {
            Rule::Needs(needs) => {
                let dependent = needs.iter().zip(&known).filter(|(needs, _)| !needs.is_empty());
                let early = |(needs, at): &(&Vec<usize>, &usize)| {
                    needs.iter().any(|&need| known.get(need).is_some_and(|known| known >= *at))
                };
                (dependent.clone().count(), dependent.filter(early).count())
            }
            Rule::Singles(grid) => (known.len(), grid.unforced(&known)),
        };
        let mut respect = Respect { dependent, early, ..Respect::default() };
        for (a, before) in self.values.iter().enumerate() {
            for (b, _) in self.values.iter().enumerate().filter(|(_, after)| before.level < after.level) {
                respect.pairs += 1;
                respect.agreeing += match known[a].cmp(&known[b]) {
                    std::cmp::Ordering::Less => 1,
                    std::cmp::Ordering::Equal => 0,
                    std::cmp::Ordering::Greater => -1,
                };
            }
        }
        respect
    }
}

/// A Sudoku or a Latin square: its clues and a completion.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    size: usize,
    /// Rows and columns of a box; none of a Latin square.
    box_shape: Option<(usize, usize)>,
    clues: Vec<u32>,
    solution: Vec<u32>,
}

impl Grid {
    /// Reads a grid: the prompt's first line names the task, the others are rows of digits, 0 for an empty cell. `None` if the
    /// answer has other rows or does not keep the clues.
    pub(super) fn read(prompt: &str, answer: &str) -> Option<Self> {
        let digits = |line: &str| line.chars().map(|c| c.to_digit(10)).collect::<Option<Vec<u32>>>();
        let rows: Vec<Vec<u32>> = prompt.lines().skip(1).map(digits).collect::<Option<_>>()?;
        let written: Vec<Vec<u32>> = answer.lines().map(digits).collect::<Option<_>>()?;
        let size = rows.len();
        let square = |rows: &[Vec<u32>]| rows.len() == size && rows.iter().all(|row| row.len() == size);
        if size == 0 || !square(&rows) || !square(&written) {
            return None;
        }
        let (clues, solution) = (rows.concat(), written.concat());
        let box_shape = match size {
            6 => Some((2, 3)),
            9 => Some((3, 3)),
            _ => None,
        };
        let kept = clues.iter().zip(&solution).all(|(clue, digit)| *clue == 0 || clue == digit);
        kept.then_some(Self { size, box_shape, clues, solution })
    }

    /// Rows, columns and boxes, as lists of cells.
    fn units(&self) -> Vec<Vec<usize>> {
        let size = self.size;
        let cells = || 0..size * size;
        let unit = |key: &dyn Fn(usize) -> usize| -> Vec<Vec<usize>> {
            (0..size).map(|unit| cells().filter(|&cell| key(cell) == unit).collect()).collect()
        };
        let mut units = unit(&|cell| cell / size);
        units.extend(unit(&|cell| cell % size));
        if let Some((rows, columns)) = self.box_shape {
            units.extend(unit(&|cell| cell / size / rows * (size / columns) + cell % size / columns));
        }
        units
    }

    /// True if every row, column and box has every digit once.
    pub(super) fn is_complete(&self) -> bool {
        self.units().iter().all(|unit| {
            let mut digits: Vec<u32> = unit.iter().map(|&cell| self.solution[cell]).collect();
            digits.sort_unstable();
            digits.into_iter().eq(1..=self.size as u32)
        })
    }

    /// The cells that are not given.
    fn open(&self) -> Vec<usize> {
        (0..self.clues.len()).filter(|&cell| self.clues[cell] == 0).collect()
    }

    /// Byte range of a cell in the answer.
    fn place(&self, cell: usize) -> Range<usize> {
        let at = cell + cell / self.size;
        at..at + 1
    }

    /// The cells that `board` forces: those with one possible digit, and those that alone can hold a digit of a unit.
    fn forced(&self, board: &[u32], units: &[Vec<usize>]) -> Vec<bool> {
        let mut free = vec![((1u32 << self.size) - 1) << 1; board.len()];
        for unit in units {
            let used = unit.iter().fold(0, |used, &cell| used | 1 << board[cell]);
            unit.iter().for_each(|&cell| free[cell] &= !used);
        }
        let is_open = |cell: usize| board[cell] == 0;
        let mut forced: Vec<bool> =
            (0..board.len()).map(|cell| is_open(cell) && free[cell].count_ones() == 1).collect();
        for unit in units {
            for digit in 1..=self.size {
                let mut can = unit.iter().filter(|&&cell| is_open(cell) && free[cell] >> digit & 1 == 1);
                if let (Some(&cell), None) = (can.next(), can.next()) {
                    forced[cell] = true;
                }
            }
        }
        forced
    }

    /// The round in which singles decide each cell, from the clues on.
    fn levels(&self) -> Vec<usize> {
        let units = self.units();
        let (mut board, mut levels) = (self.clues.clone(), vec![0; self.clues.len()]);
        for round in 0..board.len() {
            let forced = self.forced(&board, &units);
            for cell in 0..board.len() {
                if board[cell] == 0 {
                    levels[cell] = round;
                }
                if forced[cell] {
                    board[cell] = self.solution[cell];
                }
            }
        }
        levels
    }

    /// Number of open cells that were not forced when decided; `known` has their steps, in the order of [`Grid::open`].
    fn unforced(&self, known: &[usize]) -> usize {
        let (open, units) = (self.open(), self.units());
        let mut steps = known.to_vec();
        steps.sort_unstable();
        steps.dedup();
        let (mut board, mut unforced) = (self.clues.clone(), 0);
        for step in steps {
            let forced = self.forced(&board, &units);
            for (&cell, _) in open.iter().zip(known).filter(|(_, known)| **known == step) {
                unforced += usize::from(!forced[cell]);
                board[cell] = self.solution[cell];
            }
        }
        unforced
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(order: &[usize]) -> Vec<Option<usize>> {
        let mut steps = vec![None; order.len()];
        order.iter().enumerate().for_each(|(step, &at)| steps[at] = Some(step));
        steps
    }

    /// A chain whose last value stands first, and once more at the end.
    fn chain() -> Dependencies {
        let values = r#"[[[[2, 3]], []], [[[4, 6]], [0]], [[[8, 9], [0, 1]], [1]]]"#;
        Dependencies::of_values(&serde_json::from_str::<Vec<Value>>(values).unwrap())
    }

    #[test]
    fn the_oracle_breaks_nothing_and_its_opposite_everything() {
        let oracle = chain().oracle(9);
        assert_eq!(oracle, [1, 3, 6, 7, 2, 4, 5, 8, 0]);
        assert_eq!(chain().respect(&steps(&oracle)), Respect { dependent: 2, early: 0, pairs: 3, agreeing: 3 });
        let opposite: Vec<usize> = oracle.into_iter().rev().collect();
        assert_eq!(chain().respect(&steps(&opposite)), Respect { dependent: 2, early: 2, pairs: 3, agreeing: -3 });
        // Decided together is decided without seeing.
        assert_eq!(chain().respect(&[Some(0); 9]), Respect { dependent: 2, early: 2, pairs: 3, agreeing: 0 });
        assert_eq!(chain().respect(&[]).early, 2);
    }

    #[test]
    fn cells_that_singles_force_are_not_early() {
        let prompt = "sudoku:\n100250\n400000\n006400\n000030\n000000\n020360";
        let answer = "163254\n452613\n316425\n245136\n631542\n524361";
        let grid = Grid::read(prompt, answer).unwrap();
        assert!(grid.is_complete());
        let dependencies = Dependencies::of_grid(grid);
        let oracle = dependencies.oracle(answer.len());
        let respect = dependencies.respect(&steps(&oracle));
        assert_eq!((respect.dependent, respect.early), (26, 0));
        assert_eq!(respect.agreeing, respect.pairs as i64);
        let opposite: Vec<usize> = oracle.into_iter().rev().collect();
        assert!(dependencies.respect(&steps(&opposite)).early > 0);
        assert_eq!(dependencies.respect(&vec![Some(0); answer.len()]).agreeing, 0);
        assert!(Grid::read(prompt, &answer.replace("163254", "263154")).is_none(), "a clue was lost");
        assert!(Grid::read("latin:\n12\n00", "12\n12").is_some_and(|grid| !grid.is_complete()));
    }
}
