//! Canvases with decided tokens from the start: gaps inside a text, and what is said where they cannot be filled.

use lacuna_constrain::{Constraint, Ending, Fit, Impossible, Options, Vocabulary};

const A: u32 = 0;
const B: u32 = 1;
const AB: u32 = 2;
const SPECIAL: u32 = 3;
const END: u32 = 4;

fn fit(pattern: &str, canvas: &[Option<u32>], ending: Ending) -> Result<Fit, Impossible> {
    let vocabulary = Vocabulary::new([Some("a"), Some("b"), Some("ab"), None, None], &[END]);
    let compiled = Constraint::Regex(pattern.into()).compile(&vocabulary, &Options::default()).expect("compiles");
    Fit::new(&compiled, canvas, ending)
}

fn shortest(pattern: &str, canvas: &[Option<u32>], ending: Ending) -> Option<usize> {
    let impossible = fit(pattern, canvas, ending).expect_err("impossible");
    assert_eq!(impossible.length, canvas.len());
    impossible.shortest
}

#[test]
fn decided_tokens_between_masks_are_kept() {
    let mut fit = fit("a+ba+b", &[None, Some(B), None, None], Ending::Exact).expect("possible");
    assert_eq!(fit.allowed(0)[..], [1 << A]);
    assert_eq!(fit.allowed(1)[..], [1 << A | 1 << B | 1 << AB]); // what may replace the token there
    assert_eq!(fit.allowed(2)[..], [1 << A]);
    assert_eq!(fit.allowed(3)[..], [1 << B | 1 << AB]);
    assert!(fit.commit(2, B).is_err());
    fit.commit(3, AB).expect("allowed");
    fit.commit(1, AB).expect("replaces");
    assert_eq!(fit.canvas(), [None, Some(AB), None, Some(AB)]);
}

#[test]
fn an_exact_gap_has_no_end_tokens() {
    let mut padded = fit("a*", &[None, None], Ending::Padded).expect("possible");
    assert_eq!(padded.allowed(1)[..], [1 << A | 1 << END]);
    let mut exact = fit("a*", &[None, None], Ending::Exact).expect("possible");
    assert_eq!(exact.allowed(1)[..], [1 << A]);
    padded.commit(0, END).expect("allowed");
    assert_eq!(padded.allowed(1)[..], [1 << END]);
    padded.reopen(0);
    assert_eq!(padded.allowed(1)[..], [1 << A | 1 << END]);
}

#[test]
fn the_shortest_length_that_would_do_is_told() {
    assert_eq!(shortest("(ab){5}", &[None; 3], Ending::Padded), Some(5));
    assert_eq!(shortest("a{7}", &[None; 3], Ending::Padded), Some(7));
    // Too long is a wrong length, too.
    assert_eq!(shortest("ab", &[None; 3], Ending::Exact), Some(1));
    // With what is decided kept: two masks before, one behind.
    assert_eq!(shortest("aab+aa", &[None, Some(B), None], Ending::Exact), Some(5));
    assert_eq!(shortest("a{3}b", &[Some(A), None, Some(AB), None, None], Ending::Exact), Some(3));
    // A state first reached the long way, before the decided token, is reached sooner behind it.
    assert_eq!(shortest("(aaab|ba)a{4}", &[None, Some(B), None], Ending::Exact), Some(6));
    assert_eq!(shortest("a+", &[Some(B), None], Ending::Padded), None);
    assert_eq!(shortest("a+", &[Some(SPECIAL), None], Ending::Padded), None);
    assert_eq!(shortest("a+", &[Some(77), None], Ending::Padded), None);
    assert_eq!(shortest("a{4}", &[Some(A), None, Some(END)], Ending::Padded), Some(5));
    assert_eq!(shortest("a", &[], Ending::Padded), Some(1));
    let sentence = fit("a{7}", &[None; 3], Ending::Padded).expect_err("impossible").to_string();
    assert_eq!(sentence, "the constraint cannot be met in 3 tokens; the shortest length that would do is 7");
}

#[test]
fn an_empty_canvas_holds_the_empty_text() {
    let fit = fit("a*", &[], Ending::Exact).expect("possible");
    assert!(fit.is_empty());
}

#[test]
fn long_canvases_cross_words_of_bits() {
    for length in [63, 64, 65, 127, 128, 129, 300] {
        let mut canvas = vec![None; length];
        canvas[length / 2] = Some(B);
        let mut fit = fit("a*ba*", &canvas, Ending::Exact).expect("possible");
        for position in (0..length).filter(|&position| position != length / 2) {
            assert_eq!(fit.allowed(position)[..], [1 << A], "position {position} of {length}");
        }
        // Without the b in the middle, another position could be "ab".
        assert_eq!(fit.allowed(length / 2)[..], [1 << A | 1 << B | 1 << AB]);
    }
}
