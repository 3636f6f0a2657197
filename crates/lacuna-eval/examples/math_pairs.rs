//! Reads pairs `["gold", "answer"]`, one a line, and prints whether each answer means the same as its gold: for
//! comparing the grader with others (`tests/parity/compare_math.py`).

use std::io::{BufRead, Write};

fn main() -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let (gold, answer): (String, String) = serde_json::from_str(&line?)?;
        writeln!(out, "{}", lacuna_eval::grade::math::equivalent(&gold, &answer))?;
    }
    Ok(())
}
