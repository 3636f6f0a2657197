use crate::{
    bits::{Rows, add, advance, get, is_zero, ones, set, spread},
    tokens::Links,
};

/// Reachability of states before each position: one row of positions for each state.
///
/// A row moves over all masks at once, as a shift of its bits, and a state that any token can lead back to itself fills
/// whole runs of masks in one addition. States are taken in the automaton's order, so that a part of it without loops is
/// passed once.
///
/// `reach` holds the states and positions to begin with; of `length` positions, each is in `masked` or in `decided`.
/// `follow` gives the states to which the token at a decided position leads from a state.
pub(crate) fn reach<'a, I: Iterator<Item = u16>>(
    links: &Links,
    masked: &[u64],
    decided: &[u64],
    length: usize,
    follow: impl Fn(usize, u16) -> I + 'a,
    reach: &mut Rows<u64>,
) {
    let words = reach.words();
    let states = links.looped.len();
    let mut todo = vec![0u64; states.div_ceil(64)];
    (0..states).filter(|&state| !is_zero(reach.row(state))).for_each(|s| set(&mut todo, s));
    let (mut row, mut moved) = (vec![0; words], vec![0; words]);
    let mut at = 0;
    while at < todo.len() {
        if todo[at] == 0 {
            at += 1;
            continue;
        }
        let state = at * 64 + todo[at].trailing_zeros() as usize;
        todo[at] &= todo[at] - 1;
        row.copy_from_slice(reach.row(state));
        if links.looped[state] {
            spread(&mut row, masked);
            reach.row_mut(state).copy_from_slice(&row);
        }
        advance(&row, masked, &mut moved);
        if !is_zero(&moved) {
            for &next in links.next.get(state) {
                if add(reach.row_mut(next as usize), &moved) {
                    set(&mut todo, next as usize);
                    at = at.min(next as usize / 64);
                }
            }
        }
        row.iter_mut().zip(decided).for_each(|(word, decided)| *word &= decided);
        for position in ones(&row).filter(|position| position + 1 < length) {
            for next in follow(position, state as u16) {
                let row = reach.row_mut(next as usize);
                if !get(row, position + 1) {
                    set(row, position + 1);
                    set(&mut todo, next as usize);
                    at = at.min(next as usize / 64);
                }
            }
        }
    }
}
