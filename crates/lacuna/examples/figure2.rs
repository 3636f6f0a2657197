//! Figure 2 of the DOS paper, computed exactly: which parallel decoding orders recover the joint distribution?
//!
//! ```text
//!        C            x1 and x2 depend on the context C,
//!       / \           x3 depends on x1,
//!     x1   x2         x4 depends on x1 and x2.
//!     | \  |
//!     x3  x4
//! ```
//!
//! `cargo run -p lacuna --example figure2`

use lacuna::catalogue::Params;
use lacuna::scripted::Scripted;
use lacuna::{AttentionSource, Canvas, Options, Predictor, Run, Strategy, Token, decode};

const MASK: Token = 0;
const VALUES: [Token; 2] = [1, 2];
const CONTEXT: Token = 3;

/// The parents of each position; position 0 is C.
const PARENTS: [&[usize]; 5] = [&[], &[0], &[0], &[1], &[1, 2]];

/// The probability that position i has the first value, given its parents.
fn first_value(position: usize, tokens: &[Token]) -> f64 {
    let high = |parent: usize| tokens[parent] == VALUES[0];
    match position {
        1 => 0.6,
        2 => 0.95,
        3 if high(1) => 0.98,
        3 => 0.78,
        _ => [[0.9, 0.2], [0.35, 0.7]][usize::from(high(1))][usize::from(high(2))],
    }
}

/// p(x1, x2, x3, x4 | C).
pub fn joint(tokens: &[Token]) -> f64 {
    let factor = |position| {
        let p = first_value(position, tokens);
        if tokens[position] == VALUES[0] { p } else { 1.0 - p }
    };
    (1..5).map(factor).product()
}

/// All sixteen complete canvases.
pub fn completions() -> impl Iterator<Item = [Token; 5]> {
    (0..16).map(|bits: usize| {
        let value = |i: usize| VALUES[(bits >> i) & 1];
        [CONTEXT, value(0), value(1), value(2), value(3)]
    })
}

/// p(x_position = value | what is unmasked), by summing the joint.
pub fn marginal(tokens: &[Token], position: usize, value: Token) -> f64 {
    let agrees = |full: &[Token; 5]| tokens.iter().zip(full).all(|(&token, &value)| token == MASK || token == value);
    let mass = |test: &dyn Fn(&[Token; 5]) -> bool| -> f64 {
        completions().filter(|full| agrees(full) && test(full)).map(|full| joint(&full)).sum()
    };
    mass(&|full| full[position] == value) / mass(&|_| true)
}

/// The distribution over completions that results from filling `sets` of positions one after the other, each set in parallel
/// from its marginals.
pub fn decoded(sets: &[Vec<usize>], full: &[Token; 5]) -> f64 {
    let mut canvas = [CONTEXT, MASK, MASK, MASK, MASK];
    let mut probability = 1.0;
    for set in sets {
        probability *= set.iter().map(|&position| marginal(&canvas, position, full[position])).product::<f64>();
        set.iter().for_each(|&position| canvas[position] = full[position]);
    }
    probability
}

/// Total variation between the joint and what decoding in these sets yields: 0 if the joint is recovered.
pub fn distance(sets: &[Vec<usize>]) -> f64 {
    completions().map(|full| (joint(&full) - decoded(sets, &full)).abs()).sum::<f64>() / 2.0
}

/// A model that knows this distribution exactly and pays attention along the graph.
pub fn model() -> Scripted {
    let logits = |tokens: &[Token], position: usize| {
        let value =
            |value: Token| if VALUES.contains(&value) { marginal(tokens, position, value).ln() as f32 } else { -1e9 };
        (0..4).map(value).collect()
    };
    let attention = |_: &[Token], _: &AttentionSource, from: usize, to: usize| {
        if PARENTS[from].contains(&to) { 1.0 / PARENTS[from].len() as f32 } else { 0.0 }
    };
    Scripted::new(4, MASK, logits).with_attention(1, attention)
}

/// The sets of positions that a strategy fills, step by step.
pub fn chosen_sets(strategy: &str) -> lacuna::Result<Vec<Vec<usize>>> {
    let mut model = model();
    let canvas = Canvas::with_tail(&[CONTEXT], 4, MASK)?;
    let strategy = Strategy::parse(strategy, &Params::new())?;
    let mut runs = [Run::new(canvas, strategy, Options::default(), model.description())?];
    decode(&mut runs, &mut model)?;
    let positions = |delta: &lacuna::Delta| delta.committed.iter().map(|commit| commit.position).collect();
    Ok(runs[0].trace().deltas.iter().map(positions).collect())
}

/// The paper's four factorizations.
pub fn factorizations() -> [(&'static str, Vec<Vec<usize>>); 4] {
    [
        ("(a)", vec![vec![1, 2, 3, 4]]),
        ("(b)", vec![vec![1, 3], vec![2, 4]]),
        ("(c)", vec![vec![2, 3], vec![1, 4]]),
        ("(d)", vec![vec![1, 2], vec![3, 4]]),
    ]
}

#[allow(clippy::print_stdout, dead_code, reason = "an example prints; the test uses everything but main")]
fn main() -> lacuna::Result<()> {
    println!("total variation between p(x1, x2, x3, x4 | C) and what each parallel order yields\n");
    for (name, sets) in factorizations() {
        println!("  {name}  {:<18}  {:.4}", format!("{sets:?}"), distance(&sets));
    }
    println!();
    for strategy in ["confidence+top2", "dos+top2"] {
        let sets = chosen_sets(strategy)?;
        println!("  {strategy:<15} fills {sets:?}: {:.4}", distance(&sets));
    }
    Ok(())
}
