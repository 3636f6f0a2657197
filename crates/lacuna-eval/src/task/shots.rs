//! lm-eval's draw of worked examples: CPython's `random.Random(1234).sample`, once for each question in turn.

use std::collections::HashSet;

use lacuna::MersenneTwister;

const SEED: u32 = 1234;

/// For each of `questions`, `count` different rows out of `rows`.
pub(super) fn draw(rows: usize, count: usize, questions: usize) -> Vec<Vec<usize>> {
    let mut random = Random(MersenneTwister::from_array(SEED));
    (0..questions).map(|_| random.sample(rows, count.min(rows))).collect()
}

/// CPython's `random.Random`.
struct Random(MersenneTwister);

impl Random {
    /// `count` different numbers below `rows`: from a list that shrinks if there are few, else drawn again when seen before.
    fn sample(&mut self, rows: usize, count: usize) -> Vec<usize> {
        let few = if count > 5 { 21 + 4usize.pow(((count * 3) as f64).log(4.0).ceil() as u32) } else { 21 };
        if rows <= few {
            let mut left: Vec<usize> = (0..rows).collect();
            return (0..count).map(|_| left.swap_remove(self.below(left.len() as u32) as usize)).collect();
        }
        let (mut seen, mut chosen) = (HashSet::new(), Vec::new());
        while chosen.len() < count {
            let row = self.below(rows as u32) as usize;
            if seen.insert(row) {
                chosen.push(row);
            }
        }
        chosen
    }

    /// A number below `limit`: as many bits as it has, drawn again until they fit.
    fn below(&mut self, limit: u32) -> u32 {
        let unused = limit.leading_zeros();
        loop {
            let value = self.0.bits() >> unused;
            if value < limit {
                return value;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_draw_is_that_of_cpython() {
        let expected = [[6374, 3610, 957, 61, 742], [7462, 6610, 4769, 286, 5501], [5677, 687, 806, 6279, 2905]];
        assert_eq!(super::draw(7473, 5, 3), expected);
        let few = [[7, 1, 0, 10, 9], [10, 1, 11, 5, 3]];
        assert_eq!(super::draw(12, 5, 2), few);
    }
}
