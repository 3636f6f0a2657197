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

    #[inline]
    pub(crate) fn words(&self) -> usize {
        self.words
    }

    #[inline]
    pub(crate) fn row(&self, row: usize) -> &[T] {
        &self.data[row * self.words..][..self.words]
    }

    #[inline]
    pub(crate) fn row_mut(&mut self, row: usize) -> &mut [T] {
        &mut self.data[row * self.words..][..self.words]
    }

    pub(crate) fn push(&mut self) -> usize {
        self.data.resize(self.data.len() + self.words, T::default());
        self.data.len() / self.words - 1
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(self.data.as_slice())
    }

    pub(crate) fn clear(&mut self) {
        self.data.fill(T::default());
    }
}

/// Rows of 64-bit words are whole blocks of this many words, which processors handle at once.
const BLOCK: usize = 4;

/// The words of a row of so many bits.
pub(crate) fn words_for(bits: usize) -> usize {
    bits.div_ceil(64 * BLOCK).max(1) * BLOCK
}

/// Adds bits to a row; says whether any is new.
#[inline]
pub(crate) fn add(row: &mut [u64], more: &[u64]) -> bool {
    let mut new = 0;
    for (row, more) in row.as_chunks_mut::<BLOCK>().0.iter_mut().zip(more.as_chunks::<BLOCK>().0) {
        for at in 0..BLOCK {
            new |= more[at] & !row[at];
            row[at] |= more[at];
        }
    }
    new != 0
}

/// Adds to a row the bits that two others share.
#[inline]
pub(crate) fn add_shared(row: &mut [u64], a: &[u64], b: &[u64]) {
    let (a, b) = (a.as_chunks::<BLOCK>().0, b.as_chunks::<BLOCK>().0);
    for ((row, a), b) in row.as_chunks_mut::<BLOCK>().0.iter_mut().zip(a).zip(b) {
        for at in 0..BLOCK {
            row[at] |= a[at] & b[at];
        }
    }
}

/// True for a row without bits.
#[inline]
pub(crate) fn is_zero(row: &[u64]) -> bool {
    row.iter().fold(0, |all, word| all | word) == 0
}

#[inline]
pub(crate) fn get(words: &[u64], bit: usize) -> bool {
    words[bit / 64] >> (bit % 64) & 1 == 1
}

#[inline]
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
#[inline]
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
#[inline]
pub(crate) fn advance(bits: &[u64], through: &[u64], out: &mut [u64]) {
    let mut carry = 0;
    for ((out, &bits), &through) in out.iter_mut().zip(bits).zip(through) {
        let kept = bits & through;
        *out = kept << 1 | carry;
        carry = kept >> 63;
    }
}

/// The lowest `len` bits in the opposite order.
#[inline]
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
