use crate::tokens::TokenAutomaton;

/// The least number of tokens that meets the constraint when every run of masks may have any length and the decided
/// tokens stay.
pub(crate) fn shortest(
    automaton: &TokenAutomaton,
    canvas: &[Option<u32>],
    follow: impl Fn(usize, u16) -> Option<u16>,
    ends: impl Fn(usize) -> bool,
) -> Option<usize> {
    let mut tokens: Vec<Option<usize>> = vec![None; automaton.states];
    tokens[0] = Some(0);
    let mut stretched = false;
    for (position, token) in canvas.iter().enumerate() {
        if token.is_none() {
            if !std::mem::replace(&mut stretched, true) {
                stretch(automaton, &mut tokens);
            }
            continue;
        }
        stretched = false;
        let mut next: Vec<Option<usize>> = vec![None; automaton.states];
        for (state, count) in tokens.iter().enumerate() {
            if let (Some(count), Some(to)) = (count, follow(position, state as u16)) {
                let known = &mut next[to as usize];
                *known = Some(known.map_or(count + 1, |known| known.min(count + 1)));
            }
        }
        tokens = next;
    }
    // A canvas without a mask at all can still be made longer behind its end.
    if !stretched {
        stretch(automaton, &mut tokens);
    }
    (0..automaton.states).filter(|&state| ends(state)).filter_map(|state| tokens[state]).min()
}

/// Adds what any number of masks can reach, breadth first.
fn stretch(automaton: &TokenAutomaton, tokens: &mut [Option<usize>]) {
    let mut starts: Vec<(usize, usize)> =
        tokens.iter().enumerate().filter_map(|(state, count)| Some(((*count)?, state))).collect();
    starts.sort_unstable_by(|a, b| b.cmp(a));
    let mut queue = std::collections::VecDeque::new();
    loop {
        // Whichever comes first: the nearest start not yet taken, or what the queue has reached.
        let from_start = match (starts.last(), queue.front()) {
            (None, None) => return,
            (Some(start), Some(front)) => start <= front,
            (start, _) => start.is_some(),
        };
        let next = if from_start { starts.pop() } else { queue.pop_front() };
        let Some((count, state)) = next else { return };
        if tokens[state].is_some_and(|known| known < count) {
            continue;
        }
        for &to in automaton.forward.next.get(state) {
            let known = &mut tokens[to as usize];
            if known.is_none_or(|known| known > count + 1) {
                *known = Some(count + 1);
                queue.push_back((count + 1, to as usize));
            }
        }
    }
}
