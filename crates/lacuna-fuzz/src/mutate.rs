//! Random changes of valid inputs.

use serde_json::{Map, Value, json};

/// A source of mutations. The same seed gives the same ones.
pub struct Mutator(u64);

/// Values that readers are seldom prepared for.
fn odd(random: &mut Mutator) -> Value {
    let long = "a".repeat(3000);
    let deep = (0..100).fold(json!(1), |inner, _| json!([inner]));
    let values = [
        json!(null),
        json!(true),
        json!(false),
        json!(0),
        json!(-1),
        json!(1),
        json!(2),
        json!(0.5),
        json!(-0.0),
        json!(1e308),
        json!(1e-320),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(u64::from(u32::MAX)),
        json!(1u64 << 53),
        json!(65_536),
        json!(""),
        json!(" "),
        json!("\u{0}"),
        json!("é\u{301}\u{1f600}"),
        json!("../x"),
        json!("-1"),
        json!(long),
        json!([]),
        json!({}),
        json!([[]]),
        json!({"": null}),
        deep,
    ];
    values[random.below(values.len())].clone()
}

/// Pieces of text with a meaning to some reader.
const PIECES: [&str; 40] = [
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    "\"",
    "'",
    "\\",
    "+",
    "*",
    "-",
    ",",
    ":",
    "=",
    "^",
    "_",
    "|",
    "&",
    "%",
    "\n",
    "\0",
    "{{",
    "}}",
    "{%",
    "%}",
    "::=",
    "\\frac",
    "\\sqrt",
    "\\left",
    "\\begin{pmatrix}",
    "\\boxed{",
    "18446744073709551616",
    "-1",
    "1e999",
    "NaN",
    "true",
    "null",
    "[[group]]",
    "\u{1f600}",
];

impl Mutator {
    /// A source of mutations with this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next random number (SplitMix64).
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    /// A changed input, made from one of `seeds` and perhaps a part of another.
    pub fn mutate(&mut self, seeds: &[Vec<u8>]) -> Vec<u8> {
        let mut input = seeds[self.below(seeds.len())].clone();
        for _ in 0..=self.below(3) {
            // A route or a kind may stand before the JSON.
            let start = input.iter().position(|&byte| byte == b'{').filter(|&at| at <= 1);
            let parsed = start.and_then(|at| Some((at, serde_json::from_slice(&input[at..]).ok()?)));
            match parsed {
                Some((at, mut value)) if self.below(4) > 0 => {
                    self.mutate_json(&mut value);
                    input.truncate(at);
                    input.extend(value.to_string().into_bytes());
                }
                _ => self.mutate_bytes(&mut input, &seeds[0]),
            }
        }
        input
    }

    /// Replaces, removes or adds a value somewhere in a tree.
    fn mutate_json(&mut self, value: &mut Value) {
        match value {
            Value::Object(fields) if !fields.is_empty() && self.below(5) > 0 => self.mutate_field(fields),
            Value::Array(items) if !items.is_empty() && self.below(5) > 0 => {
                let index = self.below(items.len());
                match self.below(6) {
                    0 => drop(items.remove(index)),
                    1 => items.push(items[index].clone()),
                    _ => self.mutate_json(&mut items[index]),
                }
            }
            value => *value = odd(self),
        }
    }

    fn mutate_field(&mut self, fields: &mut Map<String, Value>) {
        let key = fields.keys().nth(self.below(fields.len())).cloned().unwrap_or_default();
        match self.below(8) {
            0 => drop(fields.remove(&key)),
            1 => drop(fields.insert(format!("{key}x"), odd(self))),
            2 => {
                let other = fields.values().nth(self.below(fields.len())).cloned().unwrap_or_default();
                fields.insert(key, other);
            }
            _ => self.mutate_json(&mut fields[&key]),
        }
    }

    fn mutate_bytes(&mut self, input: &mut Vec<u8>, other: &[u8]) {
        let at = self.below(input.len() + 1);
        // Headers are where the meaning is.
        let at = if self.below(2) == 0 { at } else { at.min(self.below(256)) };
        let end = (at + self.below(16)).min(input.len());
        match self.below(8) {
            0 => input.truncate(at),
            1 => drop(input.drain(at..end)),
            2 => {
                let piece = PIECES[self.below(PIECES.len())].repeat(1 + self.below(3));
                input.splice(at..at, piece.into_bytes());
            }
            3 => {
                let piece = input[at..end].repeat(1 + self.below(40));
                input.splice(at..at, piece);
            }
            4 => {
                let from = self.below(other.len() + 1);
                input.splice(at..end, other[from..(from + 24).min(other.len())].to_vec());
            }
            5 => {
                let number = [0u64, 1, u64::MAX, 1 << 63, 1 << 32, 255][self.below(6)].to_le_bytes();
                let length = 8.min(input.len() - at);
                input[at..at + length].copy_from_slice(&number[..length]);
            }
            _ => {
                let value = self.next() as u8;
                if let Some(byte) = input.get_mut(at) {
                    *byte = if value & 1 == 0 { value } else { *byte ^ 1 << (value >> 5) };
                }
            }
        }
    }
}
