//! Allowed sets against brute force: every canvas that decided tokens leave open is written out and matched.

use std::collections::BTreeSet;

use lacuna_constrain::{Compiled, Constraint, Ending, Fit, Options, Vocabulary};
use proptest::prelude::*;
use std::sync::Arc;

/// Canvases to write out at most for one case.
const CANVASES: usize = 60_000;

/// Regular expressions over a, b and ä.
fn pattern() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        4 => prop::sample::select(vec!["a", "b", "ä", "ab", "[ab]", "[^a]", ".", ""]).prop_map(str::to_owned),
        1 => prop::sample::select(vec!["^", "$", "a$", "^b"]).prop_map(str::to_owned),
    ];
    leaf.prop_recursive(4, 16, 3, |inner| {
        prop_oneof![
            3 => prop::collection::vec(inner.clone(), 1..4).prop_map(|parts| format!("(?:{})", parts.concat())),
            2 => prop::collection::vec(inner.clone(), 2..4).prop_map(|parts| format!("(?:{})", parts.join("|"))),
            2 => (inner, prop::sample::select(vec!["*", "+", "?", "{2}", "{1,3}", "{2,}"]))
                .prop_map(|(part, times)| format!("(?:{part}){times}")),
        ]
    })
}

/// The texts of at most 12 tokens: bytes of ä among them, and some that are alike.
fn tokens() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let piece = prop::sample::select(vec![b"a".to_vec(), b"b".to_vec(), vec![0xc3], vec![0xa4], "ä".into()]);
    let token = prop::collection::vec(piece, 1..4).prop_map(|pieces| pieces.concat());
    prop::collection::vec(token, 1..10)
}

/// Every way to complete a canvas, by the definition: texts that match, then end tokens.
fn completions(
    matches: &dyn Fn(&[u8]) -> bool,
    tokens: &[Vec<u8>],
    end: &[u32],
    canvas: &[Option<u32>],
    ending: Ending,
) -> Vec<Vec<u32>> {
    let all = tokens.len() + end.len();
    let mut found = Vec::new();
    let mut filled: Vec<u32> = canvas.iter().map(|token| token.unwrap_or(0)).collect();
    loop {
        let text_len = filled.iter().position(|token| end.contains(token)).unwrap_or(filled.len());
        let padded = ending == Ending::Padded && filled[text_len..].iter().all(|token| end.contains(token));
        // The last token is special and stands for nothing.
        let spelled = filled[..text_len].iter().all(|&token| (token as usize) < tokens.len());
        if spelled && (padded || text_len == filled.len()) {
            let text: Vec<u8> = filled[..text_len].iter().flat_map(|&token| tokens[token as usize].clone()).collect();
            if matches(&text) {
                found.push(filled.clone());
            }
        }
        let mut at = 0;
        loop {
            if at == canvas.len() {
                return found;
            }
            if canvas[at].is_none() {
                filled[at] += 1;
                if (filled[at] as usize) <= all {
                    break;
                }
                filled[at] = 0;
            }
            at += 1;
        }
    }
}

fn members(words: &[u32]) -> BTreeSet<u32> {
    (0..words.len() as u32 * 32).filter(|token| words[*token as usize / 32] >> (token % 32) & 1 == 1).collect()
}

fn agrees(fit: &mut Fit, completions: &[Vec<u32>], size: u32) {
    for position in 0..fit.len() {
        let expected: BTreeSet<u32> = completions.iter().map(|canvas| canvas[position]).collect();
        match fit.canvas()[position] {
            None => {
                assert_eq!(members(fit.allowed(position)), expected, "position {position} of {:?}", fit.canvas());
                for token in 0..size {
                    assert_eq!(fit.allows(position, token), expected.contains(&token));
                }
            }
            Some(token) => assert!(fit.allows(position, token)),
        }
    }
}

/// Decides a canvas in the order and with the tokens that `choices` gives, and compares at each step.
fn compare(
    compiled: &Arc<Compiled>,
    matches: &dyn Fn(&[u8]) -> bool,
    tokens: &[Vec<u8>],
    ending: Ending,
    length: usize,
    choices: &[usize],
) {
    let end = [tokens.len() as u32, tokens.len() as u32 + 1];
    let size = tokens.len() as u32 + 3;
    let mut canvas = vec![None; length];
    let mut all = completions(matches, tokens, &end, &canvas, ending);
    let mut fit = match Fit::new(compiled, &canvas, ending) {
        Ok(fit) => fit,
        Err(impossible) => {
            assert!(all.is_empty());
            // The shortest length is the shortest: brute force finds nothing below it, and something at it.
            for length in 0..6 {
                let possible = !completions(matches, tokens, &end, &vec![None; length], ending).is_empty();
                assert!(!possible || impossible.shortest.is_some_and(|shortest| shortest <= length));
                assert!(possible || impossible.shortest != Some(length));
                if (size as usize).pow(length as u32 + 1) > CANVASES {
                    break;
                }
            }
            return;
        }
    };
    assert!(!all.is_empty());
    let mut choices = choices.iter().copied().cycle();
    let mut choose = |from: usize| choices.next().unwrap_or(0) % from;
    while let Some(open) = Some(fit.canvas().iter().filter(|token| token.is_none()).count()).filter(|&open| open > 0) {
        agrees(&mut fit, &all, size);
        let position = (0..length).filter(|&at| fit.canvas()[at].is_none()).nth(choose(open)).expect("open");
        let allowed: Vec<u32> = members(fit.allowed(position)).into_iter().collect();
        if let Some(wrong) = (0..size + 1).find(|token| !allowed.contains(token)) {
            assert!(fit.commit(position, wrong).is_err());
        }
        let token = allowed[choose(allowed.len())];
        fit.commit(position, token).expect("allowed");
        canvas[position] = Some(token);
        all.retain(|canvas| canvas[position] == token);
        // Now and then a position is opened again.
        if choose(4) == 0 {
            let reopened = choose(length);
            fit.reopen(reopened);
            canvas[reopened] = None;
            all = completions(matches, tokens, &end, &canvas, ending);
            agrees(&mut fit, &all, size);
            fit.commit(reopened, all[0][reopened]).expect("allowed");
            canvas[reopened] = Some(all[0][reopened]);
            all.retain(|canvas| canvas[reopened] == all_token(&fit, reopened));
        }
    }
    assert_eq!(all.len(), 1);
    agrees(&mut fit, &all, size);
}

fn all_token(fit: &Fit, position: usize) -> u32 {
    fit.canvas()[position].expect("decided")
}

fn vocabulary(tokens: &[Vec<u8>]) -> Vocabulary {
    let count = tokens.len() as u32;
    let spelled = tokens.iter().map(|token| Some(token.clone())).chain([None, None, None]);
    Vocabulary::new(spelled, &[count, count + 1])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn allowed_sets_are_those_of_brute_force(
        pattern in pattern(),
        tokens in tokens(),
        exact in any::<bool>(),
        length in 1usize..=7,
        choices in prop::collection::vec(0usize..1000, 24),
    ) {
        let length = (1..=length).rev().find(|&length| (tokens.len() + 3).pow(length as u32) <= CANVASES).unwrap_or(1);
        let ending = if exact { Ending::Exact } else { Ending::Padded };
        let dot = pattern.replace('.', r"[^\n\r\x{2028}\x{2029}]");
        let oracle = regex::bytes::Regex::new(&format!("^(?:{dot})$")).expect("a pattern");
        let vocabulary = vocabulary(&tokens);
        match Constraint::Regex(pattern.clone()).compile(&vocabulary, &Options::default()) {
            Ok(compiled) => compare(&compiled, &|text| oracle.is_match(text), &tokens, ending, length, &choices),
            // Nothing matches: no short text does.
            Err(_) => {
                let end = [tokens.len() as u32, tokens.len() as u32 + 1];
                let all = completions(&|text| oracle.is_match(text), &tokens, &end, &vec![None; length], ending);
                prop_assert!(all.is_empty());
            }
        }
    }

    /// Canvases of 7 with 12 tokens. Writing out all of them would take hours, so that all but 4 positions are decided first, in any
    /// order, and again with other positions open.
    #[test]
    fn long_canvases_are_those_of_brute_force(
        pattern in pattern(),
        pieces in prop::collection::vec(tokens(), 9),
        exact in any::<bool>(),
        choices in prop::collection::vec(0usize..1000, 64),
    ) {
        let tokens: Vec<Vec<u8>> = pieces.into_iter().map(|mut tokens| tokens.swap_remove(0)).collect();
        let (length, open) = (7, 4);
        let ending = if exact { Ending::Exact } else { Ending::Padded };
        let dot = pattern.replace('.', r"[^\n\r\x{2028}\x{2029}]");
        let oracle = regex::bytes::Regex::new(&format!("^(?:{dot})$")).expect("a pattern");
        let Ok(compiled) = Constraint::Regex(pattern).compile(&vocabulary(&tokens), &Options::default()) else {
            return Ok(());
        };
        let Ok(mut fit) = Fit::new(&compiled, &vec![None; length], ending) else { return Ok(()) };
        let mut choices = choices.into_iter();
        let mut choose = |from: usize| choices.next().unwrap_or(0) % from;
        let (end, size) = ([tokens.len() as u32, tokens.len() as u32 + 1], tokens.len() as u32 + 3);
        for _ in 0..3 {
            // Decides what is open, in any order, and then opens other positions.
            loop {
                let masks: Vec<usize> = (0..length).filter(|&at| fit.canvas()[at].is_none()).collect();
                let Some(&position) = masks.get(choose(masks.len().max(1))) else { break };
                let allowed: Vec<u32> = members(fit.allowed(position)).into_iter().collect();
                prop_assert!(fit.commit(position, allowed[choose(allowed.len())]).is_ok());
            }
            while fit.canvas().iter().filter(|token| token.is_none()).count() < open {
                let decided: Vec<usize> = (0..length).filter(|&at| fit.canvas()[at].is_some()).collect();
                fit.reopen(decided[choose(decided.len())]);
            }
            let all = completions(&|text| oracle.is_match(text), &tokens, &end, fit.canvas(), ending);
            agrees(&mut fit, &all, size);
        }
    }

    #[test]
    fn choices_are_themselves(
        texts in prop::collection::vec("[abä]{0,5}", 1..5),
        tokens in tokens(),
        length in 1usize..=4,
        choices in prop::collection::vec(0usize..1000, 24),
    ) {
        let length = (1..=length).rev().find(|&length| (tokens.len() + 3).pow(length as u32) <= CANVASES).unwrap_or(1);
        let compiled = Constraint::Choices(texts.clone()).compile(&vocabulary(&tokens), &Options::default());
        let matches = |text: &[u8]| texts.iter().any(|choice| choice.as_bytes() == text);
        compare(&compiled.expect("compiles"), &matches, &tokens, Ending::Padded, length, &choices);
    }

    #[test]
    fn the_shortest_length_is_that_of_the_shortest_canvas(
        pattern in pattern(),
        tokens in tokens(),
        exact in any::<bool>(),
        canvas in prop::collection::vec(prop_oneof![Just(None), (0u32..12).prop_map(Some)], 0..5),
    ) {
        let ending = if exact { Ending::Exact } else { Ending::Padded };
        let Ok(compiled) = Constraint::Regex(pattern).compile(&vocabulary(&tokens), &Options::default()) else {
            return Ok(());
        };
        let Err(impossible) = Fit::new(&compiled, &canvas, ending) else { return Ok(()) };
        // Every run of masks takes any length, and so does what lies behind the end.
        let mut pieces: Vec<Option<u32>> = canvas;
        pieces.dedup_by(|a, b| a.is_none() && b.is_none());
        if pieces.last() != Some(&None) {
            pieces.push(None);
        }
        let runs = pieces.iter().filter(|piece| piece.is_none()).count();
        let longest = 6usize;
        let mut least = None;
        for choice in 0..longest.pow(runs as u32) {
            let mut rest = choice;
            let stretched: Vec<Option<u32>> = (pieces.iter())
                .flat_map(|piece| {
                    let count = if piece.is_none() { rest % longest } else { 1 };
                    rest = if piece.is_none() { rest / longest } else { rest };
                    vec![*piece; count]
                })
                .collect();
            if least.is_none_or(|least| stretched.len() < least) && Fit::new(&compiled, &stretched, ending).is_ok() {
                least = Some(stretched.len());
            }
        }
        match (impossible.shortest, least) {
            // Beyond what was tried.
            (Some(shortest), None) => prop_assert!(shortest >= longest),
            (shortest, least) => prop_assert_eq!(shortest, least),
        }
    }
}
