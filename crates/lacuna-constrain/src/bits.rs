/// Bit sets of one length, in one piece of memory.
#[derive(Clone, Debug)]
pub(crate) struct Rows<T> {
    words: usize,
    data: Vec<T>,
}

impl<T: Copy + Default> Rows<T> {
    pub(crate) fn new(rows: usize, words: usize) -> Self {
        Self { words, data: vec![T::default(); rows * words] }
    }

    pub(crate) fn words(&self) -> usize {
        self.words
    }

    pub(crate) fn row(&self, row: usize) -> &[T] {
        &self.data[row * self.words..][..self.words]
    }

    pub(crate) fn row_mut(&mut self, row: usize) -> &mut [T] {
        &mut self.data[row * self.words..][..self.words]
    }

    pub(crate) fn push(&mut self) -> usize {
        self.data.resize(self.data.len() + self.words, T::default());
        self.data.len() / self.words - 1
    }

    pub(crate) fn clear(&mut self) {
        self.data.fill(T::default());
    }
}

pub(crate) fn get(words: &[u64], bit: usize) -> bool {
    words[bit / 64] >> (bit % 64) & 1 == 1
}

pub(crate) fn set(words: &mut [u64], bit: usize) {
    words[bit / 64] |= 1 << (bit % 64);
}

/// The bits that are set, in order.
pub(crate) fn ones(words: &[u64]) -> impl Iterator<Item = usize> {
    words.iter().enumerate().flat_map(|(at, &word)| {
        let next = |rest: &u64| Some(rest & (rest - 1)).filter(|&rest| rest != 0);
        std::iter::successors(Some(word).filter(|&word| word != 0), next)
            .map(move |rest| at * 64 + rest.trailing_zeros() as usize)
    })
}

/// Spreads every bit upwards for as long as `through` has the bits on the way: a bit at 3 with `through` at 3 and 4 gives
/// 3, 4 and 5. One addition does it, its carry runs through the ones (Cameron's MatchStar).
pub(crate) fn spread(bits: &mut [u64], through: &[u64]) {
    let mut carry = false;
    for (bits, &through) in bits.iter_mut().zip(through) {
        let (sum, over) = (*bits & through).overflowing_add(through);
        let (sum, over_again) = sum.overflowing_add(u64::from(carry));
        carry = over | over_again;
        *bits |= sum ^ through;
    }
}

/// `(bits & through)` moved up by one.
pub(crate) fn advance(bits: &[u64], through: &[u64], out: &mut [u64]) {
    let mut carry = 0;
    for ((out, &bits), &through) in out.iter_mut().zip(bits).zip(through) {
        let kept = bits & through;
        *out = kept << 1 | carry;
        carry = kept >> 63;
    }
}

/// The lowest `len` bits in the opposite order.
pub(crate) fn reverse(bits: &[u64], len: usize, out: &mut [u64]) {
    out.fill(0);
    let shift = bits.len() * 64 - len;
    let (skip, shift) = (shift / 64, shift % 64);
    for at in 0..bits.len() - skip {
        let low = bits[bits.len() - 1 - at - skip].reverse_bits() >> shift;
        let next = if shift > 0 && at + skip + 1 < bits.len() {
            bits[bits.len() - 2 - at - skip].reverse_bits() << (64 - shift)
        } else {
            0
        };
        out[at] = low | next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bits: &[usize]) -> Vec<u64> {
        let mut words = vec![0; 3];
        bits.iter().for_each(|&bit| set(&mut words, bit));
        words
    }

    #[test]
    fn bits_spread_through_runs_across_words() {
        let through = of(&(60..130).chain([140, 141]).collect::<Vec<_>>());
        let mut bits = of(&[3, 62, 70, 141]);
        spread(&mut bits, &through);
        let expected: Vec<usize> = [3].into_iter().chain(62..=130).chain([141, 142]).collect();
        assert_eq!(ones(&bits).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn bits_reverse_within_their_length() {
        for len in [1, 63, 64, 65, 100, 128, 191, 192] {
            let bits = of(&[0, len / 3, len - 1]);
            let mut out = vec![u64::MAX; 3];
            reverse(&bits, len, &mut out);
            let mut expected = vec![len - 1, len - 1 - len / 3, 0];
            expected.sort_unstable();
            expected.dedup();
            assert_eq!(ones(&out).collect::<Vec<_>>(), expected, "length {len}");
        }
    }
}
