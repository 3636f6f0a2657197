//! The quantized types of GGUF: blocks of values that share scales.

use half::f16;

/// A quantized type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quant {
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q4K,
    Q5K,
    Q6K,
}

/// Most values of a block.
const MAX_BLOCK: usize = 256;

impl Quant {
    /// The type of a number in a file.
    pub(crate) fn of_ggml(kind: u32) -> Option<Self> {
        Some(match kind {
            2 => Self::Q4_0,
            3 => Self::Q4_1,
            6 => Self::Q5_0,
            7 => Self::Q5_1,
            8 => Self::Q8_0,
            12 => Self::Q4K,
            13 => Self::Q5K,
            14 => Self::Q6K,
            _ => return None,
        })
    }

    /// Values and bytes of a block.
    pub(crate) fn block(self) -> (usize, usize) {
        match self {
            Self::Q4_0 => (32, 18),
            Self::Q4_1 => (32, 20),
            Self::Q5_0 => (32, 22),
            Self::Q5_1 => (32, 24),
            Self::Q8_0 => (32, 34),
            Self::Q4K => (256, 144),
            Self::Q5K => (256, 176),
            Self::Q6K => (256, 210),
        }
    }

    /// The name that llama.cpp gives it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Q4_0 => "Q4_0",
            Self::Q4_1 => "Q4_1",
            Self::Q5_0 => "Q5_0",
            Self::Q5_1 => "Q5_1",
            Self::Q8_0 => "Q8_0",
            Self::Q4K => "Q4_K",
            Self::Q5K => "Q5_K",
            Self::Q6K => "Q6_K",
        }
    }

    /// Reads the values from element `first` on.
    pub(crate) fn read(self, bytes: &[u8], first: usize, values: &mut [f32]) {
        let (size, width) = self.block();
        let mut whole = [0.0; MAX_BLOCK];
        let (mut index, mut rest) = (first, values);
        while !rest.is_empty() {
            let (block, place) = (index / size, index % size);
            let (part, next) = rest.split_at_mut((size - place).min(rest.len()));
            self.dequantize(&bytes[block * width..][..width], &mut whole[..size]);
            part.copy_from_slice(&whole[place..][..part.len()]);
            index += part.len();
            rest = next;
        }
    }

    /// The values of a block.
    fn dequantize(self, block: &[u8], values: &mut [f32]) {
        match self {
            Self::Q4_0 => {
                let (scale, low) = (half(block, 0), &block[2..18]);
                nibbles(low, values, |nibble, _| scale * (f32::from(nibble) - 8.0));
            }
            Self::Q4_1 => {
                let (scale, least, low) = (half(block, 0), half(block, 2), &block[4..20]);
                nibbles(low, values, |nibble, _| scale * f32::from(nibble) + least);
            }
            Self::Q5_0 => {
                let (scale, high, low) = (half(block, 0), word(block, 2), &block[6..22]);
                nibbles(low, values, |nibble, index| scale * (f32::from(fifth(nibble, high, index)) - 16.0));
            }
            Self::Q5_1 => {
                let (scale, least, high, low) = (half(block, 0), half(block, 2), word(block, 4), &block[8..24]);
                nibbles(low, values, |nibble, index| scale * f32::from(fifth(nibble, high, index)) + least);
            }
            Self::Q8_0 => {
                let scale = half(block, 0);
                values.iter_mut().zip(&block[2..]).for_each(|(value, &byte)| *value = f32::from(byte as i8) * scale);
            }
            Self::Q4K => scaled(block, values, |group, index| {
                let byte = block[16 + group / 2 * 32 + index];
                if group % 2 == 0 { byte & 15 } else { byte >> 4 }
            }),
            Self::Q5K => scaled(block, values, |group, index| {
                let (high, byte) = ((block[16 + index] >> group) & 1, block[48 + group / 2 * 32 + index]);
                (if group % 2 == 0 { byte & 15 } else { byte >> 4 }) | (high << 4)
            }),
            Self::Q6K => {
                let (low, high, scales) = (&block[..128], &block[128..192], &block[192..208]);
                let scale = half(block, 208);
                for (index, value) in values.iter_mut().enumerate() {
                    // Two halves of 128 values; in each, four quarters of 32 share bytes.
                    let (part, quarter, place) = (index / 128, index / 32 % 4, index % 32);
                    let byte = low[part * 64 + quarter % 2 * 32 + place];
                    let nibble = if quarter < 2 { byte & 15 } else { byte >> 4 };
                    let bits = (high[part * 32 + place] >> (2 * quarter)) & 3;
                    let whole = i32::from(nibble | (bits << 4)) - 32;
                    *value = scale * f32::from(scales[index / 16] as i8) * whole as f32;
                }
            }
        }
    }
}

/// The values of a block of 16 bytes: their low halves first, then the high ones.
fn nibbles(bytes: &[u8], values: &mut [f32], value: impl Fn(u8, usize) -> f32) {
    for (index, &byte) in bytes.iter().enumerate() {
        values[index] = value(byte & 15, index);
        values[index + 16] = value(byte >> 4, index + 16);
    }
}

/// A value whose fifth bit stands apart.
fn fifth(nibble: u8, high: u32, index: usize) -> u8 {
    nibble | ((((high >> index) & 1) as u8) << 4)
}

/// A block of eight groups of 32 values, each with a scale and a least value of six bits.
fn scaled(block: &[u8], values: &mut [f32], whole: impl Fn(usize, usize) -> u8) {
    let (scale, least, packed) = (half(block, 0), half(block, 2), &block[4..16]);
    for (group, values) in values.chunks_exact_mut(32).enumerate() {
        let (factor, offset) = match group {
            0..4 => (packed[group] & 63, packed[group + 4] & 63),
            _ => {
                let rest = packed[group + 4];
                ((rest & 15) | (packed[group - 4] >> 6 << 4), (rest >> 4) | (packed[group] >> 6 << 4))
            }
        };
        let (factor, offset) = (scale * f32::from(factor), least * f32::from(offset));
        for (index, value) in values.iter_mut().enumerate() {
            *value = factor * f32::from(whole(group, index)) - offset;
        }
    }
}

fn half(bytes: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([bytes[at], bytes[at + 1]]).to_f32()
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
