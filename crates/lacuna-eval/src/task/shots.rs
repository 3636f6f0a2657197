//! lm-eval's draw of worked examples: CPython's `random.Random(1234).sample`, once for each question in turn.

use std::collections::HashSet;

const SEED: u32 = 1234;

/// For each of `questions`, `count` different rows out of `rows`.
pub(super) fn draw(rows: usize, count: usize, questions: usize) -> Vec<Vec<usize>> {
    let mut twister = Twister::new(SEED);
    (0..questions).map(|_| twister.sample(rows, count.min(rows))).collect()
}

const SIZE: usize = 624;

/// MT19937, seeded as CPython seeds it (Matsumoto and Nishimura 1998).
struct Twister {
    state: [u32; SIZE],
    next: usize,
}

impl Twister {
    fn new(seed: u32) -> Self {
        let mut state = [0u32; SIZE];
        state[0] = 19_650_218;
        for i in 1..SIZE {
            let last = state[i - 1];
            state[i] = 1_812_433_253u32.wrapping_mul(last ^ (last >> 30)).wrapping_add(i as u32);
        }
        let mix = |state: &[u32; SIZE], i: usize| state[i - 1] ^ (state[i - 1] >> 30);
        let mut i = 1;
        for _ in 0..SIZE {
            state[i] = (state[i] ^ mix(&state, i).wrapping_mul(1_664_525)).wrapping_add(seed);
            i += 1;
            if i == SIZE {
                state[0] = state[SIZE - 1];
                i = 1;
            }
        }
        for _ in 0..SIZE - 1 {
            state[i] = (state[i] ^ mix(&state, i).wrapping_mul(1_566_083_941)).wrapping_sub(i as u32);
            i += 1;
            if i == SIZE {
                state[0] = state[SIZE - 1];
                i = 1;
            }
        }
        state[0] = 0x8000_0000;
        Self { state, next: SIZE }
    }

    fn bits(&mut self) -> u32 {
        if self.next == SIZE {
            for i in 0..SIZE {
                let y = (self.state[i] & 0x8000_0000) | (self.state[(i + 1) % SIZE] & 0x7fff_ffff);
                let odd = if y & 1 == 1 { 0x9908_b0df } else { 0 };
                self.state[i] = self.state[(i + 397) % SIZE] ^ (y >> 1) ^ odd;
            }
            self.next = 0;
        }
        let mut y = self.state[self.next];
        self.next += 1;
        y ^= y >> 11;
        y ^= (y << 7) & 0x9d2c_5680;
        y ^= (y << 15) & 0xefc6_0000;
        y ^ (y >> 18)
    }

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
            let value = self.bits() >> unused;
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
