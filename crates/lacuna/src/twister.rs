//! The Mersenne Twister, for draws that must equal those of PyTorch or CPython.

const STATE_WORDS: usize = 624;

/// MT19937 (Matsumoto and Nishimura 1998).
#[derive(Clone, Debug)]
pub struct MersenneTwister {
    state: [u32; STATE_WORDS],
    next: usize,
}

impl MersenneTwister {
    /// Seeded by a number, as PyTorch does on the CPU.
    pub fn new(seed: u32) -> Self {
        let mut state = [seed; STATE_WORDS];
        for i in 1..STATE_WORDS {
            let last = state[i - 1];
            state[i] = 1_812_433_253u32.wrapping_mul(last ^ (last >> 30)).wrapping_add(i as u32);
        }
        Self { state, next: STATE_WORDS }
    }

    /// Seeded by an array of one number, as CPython does.
    pub fn from_array(seed: u32) -> Self {
        let mut twister = Self::new(19_650_218);
        let state = &mut twister.state;
        let mix = |state: &[u32; STATE_WORDS], i: usize| state[i - 1] ^ (state[i - 1] >> 30);
        let mut i = 1;
        let advance = |state: &mut [u32; STATE_WORDS], i: &mut usize| {
            *i += 1;
            if *i == STATE_WORDS {
                state[0] = state[STATE_WORDS - 1];
                *i = 1;
            }
        };
        for _ in 0..STATE_WORDS {
            state[i] = (state[i] ^ mix(state, i).wrapping_mul(1_664_525)).wrapping_add(seed);
            advance(state, &mut i);
        }
        for _ in 0..STATE_WORDS - 1 {
            state[i] = (state[i] ^ mix(state, i).wrapping_mul(1_566_083_941)).wrapping_sub(i as u32);
            advance(state, &mut i);
        }
        state[0] = 0x8000_0000;
        twister
    }

    /// The next 32 random bits.
    pub fn bits(&mut self) -> u32 {
        if self.next == STATE_WORDS {
            for i in 0..STATE_WORDS {
                let y = (self.state[i] & 0x8000_0000) | (self.state[(i + 1) % STATE_WORDS] & 0x7fff_ffff);
                let twisted = (y >> 1) ^ if y & 1 == 1 { 0x9908_b0df } else { 0 };
                self.state[i] = self.state[(i + 397) % STATE_WORDS] ^ twisted;
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
}
