use super::{DEAD, Dfa, dfa::NONE, too_large};
use crate::Refused;

/// Merges states that accept the same continuations (Valmari and Lehtinen's partition refinement, 2008), drops those
/// that lead nowhere, and numbers the rest so that no state comes before one that leads to it, loops aside.
pub(super) fn minimize(classes: Vec<u8>, width: usize, table: &[u32], accepting: &[bool]) -> Result<Dfa, Refused> {
    let (classes, width, table) = merge_classes(classes, width, table);
    let live = live(width, &table, accepting);
    if !live[0] {
        return Ok(Dfa { classes: vec![0; 256], width: 1, table: vec![DEAD], accepting: vec![false] });
    }
    // Transitions among live states: from, class, to.
    let mut moves = Vec::new();
    for (at, &to) in table.iter().enumerate() {
        let from = at / width;
        if to != NONE && live[from] && live[to as usize] {
            moves.push((from as u32, (at % width) as u32, to));
        }
    }
    let blocks = refine(accepting, &live, width, &moves);

    let count = blocks.iter().max().map_or(0, |&block| block as usize + 1);
    let mut merged = vec![NONE; count * width];
    for &(from, class, to) in &moves {
        merged[blocks[from as usize] as usize * width + class as usize] = blocks[to as usize];
    }
    let successors = |block: usize| merged[block * width..][..width].iter().copied().filter(|&to| to != NONE);
    let component = components(count, |block| successors(block).map(|to| to as usize));
    // Blocks that the start reaches; what it does not reach led nowhere or was another's duplicate.
    let mut order: Vec<u32> = Vec::new();
    let mut met = vec![false; count];
    let mut todo = vec![blocks[0]];
    while let Some(block) = todo.pop() {
        if !std::mem::replace(&mut met[block as usize], true) {
            order.push(block);
            todo.extend(successors(block as usize));
        }
    }
    // Components are numbered from the last to the first; the start comes first in its own.
    order.sort_by_key(|&block| (std::cmp::Reverse(component[block as usize]), block != blocks[0], block));
    let limit = DEAD as usize - 2;
    if order.len() > limit {
        return Err(too_large("the states of its automaton", limit));
    }
    let mut number = vec![DEAD; count];
    order.iter().enumerate().for_each(|(new, &block)| number[block as usize] = new as u16);
    let mut ends = vec![false; count];
    (0..accepting.len()).filter(|&state| live[state]).for_each(|s| ends[blocks[s] as usize] |= accepting[s]);
    let next = |to: &u32| if *to == NONE { DEAD } else { number[*to as usize] };
    let table = order.iter().flat_map(|&block| merged[block as usize * width..][..width].iter().map(next)).collect();
    let accepting = order.iter().map(|&block| ends[block as usize]).collect();
    Ok(Dfa { classes, width, table, accepting })
}

/// Joins classes of bytes that lead to the same states everywhere.
fn merge_classes(mut classes: Vec<u8>, width: usize, table: &[u32]) -> (Vec<u8>, usize, Vec<u32>) {
    let states = table.len() / width;
    let column = |class: usize| (0..states).map(move |state| table[state * width + class]);
    let mut kept: Vec<usize> = Vec::new();
    let new: Vec<u8> = (0..width)
        .map(|class| {
            let known = kept.iter().position(|&other| column(other).eq(column(class)));
            known.unwrap_or_else(|| {
                kept.push(class);
                kept.len() - 1
            }) as u8
        })
        .collect();
    classes.iter_mut().for_each(|class| *class = new[*class as usize]);
    let merged = (0..states).flat_map(|state| kept.iter().map(move |&class| table[state * width + class])).collect();
    (classes, kept.len(), merged)
}

/// The states from which an accepting one can be reached.
fn live(width: usize, table: &[u32], accepting: &[bool]) -> Vec<bool> {
    let heads = table.iter().enumerate().filter(|&(_, &to)| to != NONE).map(|(at, &to)| (to, (at / width) as u32));
    let (first, tails) = group(accepting.len(), heads);
    let mut live = accepting.to_vec();
    let mut todo: Vec<usize> = (0..live.len()).filter(|&state| live[state]).collect();
    while let Some(state) = todo.pop() {
        for &from in &tails[first[state] as usize..first[state + 1] as usize] {
            if !std::mem::replace(&mut live[from as usize], true) {
                todo.push(from as usize);
            }
        }
    }
    live
}

/// Lists by key: `(first, items)`, where key `k` has `items[first[k]..first[k + 1]]`.
pub(crate) fn group(keys: usize, pairs: impl Iterator<Item = (u32, u32)> + Clone) -> (Vec<u32>, Vec<u32>) {
    let mut first = vec![0u32; keys + 1];
    pairs.clone().for_each(|(key, _)| first[key as usize + 1] += 1);
    (0..keys).for_each(|key| first[key + 1] += first[key]);
    let mut at = first.clone();
    let mut items = vec![0; first[keys] as usize];
    for (key, item) in pairs {
        items[at[key as usize] as usize] = item;
        at[key as usize] += 1;
    }
    (first, items)
}

/// The block of every state: states of one block accept the same continuations. Dead states share a block of their own.
fn refine(accepting: &[bool], live: &[bool], width: usize, moves: &[(u32, u32, u32)]) -> Vec<u32> {
    let mut blocks = Partition::new(accepting.len());
    for property in [accepting, live] {
        (0..accepting.len()).filter(|&state| property[state]).for_each(|state| blocks.mark(state));
        blocks.split();
    }
    let (bounds, by_class) = group(width, moves.iter().enumerate().map(|(at, m)| (m.1, at as u32)));
    let mut cords = Partition::of(&bounds, by_class);
    let (first, incoming) = group(accepting.len(), moves.iter().enumerate().map(|(at, m)| (m.2, at as u32)));
    let (mut block, mut cord) = (0, 0);
    while cord < cords.sets() {
        for at in cords.members(cord) {
            blocks.mark(moves[cords.items[at] as usize].0 as usize);
        }
        blocks.split();
        cord += 1;
        // The first block need not split the cords, but it may: one pass more.
        while block < blocks.sets() {
            for at in blocks.members(block) {
                let state = blocks.items[at] as usize;
                for &m in &incoming[first[state] as usize..first[state + 1] as usize] {
                    cords.mark(m as usize);
                }
            }
            cords.split();
            block += 1;
        }
    }
    blocks.set_of
}

/// A partition that is refined by marking members and splitting the marked from the others.
struct Partition {
    items: Vec<u32>,
    place: Vec<u32>,
    set_of: Vec<u32>,
    /// First place, end and number of marked members of each set; the marked ones come first.
    ranges: Vec<(u32, u32, u32)>,
    touched: Vec<u32>,
}

impl Partition {
    fn new(len: usize) -> Self {
        let items: Vec<u32> = (0..len as u32).collect();
        let ranges = if len == 0 { Vec::new() } else { vec![(0, len as u32, 0)] };
        Self { place: items.clone(), items, set_of: vec![0; len], ranges, touched: Vec::new() }
    }

    /// The partition whose sets are the non-empty ranges of `items` between neighbouring bounds.
    fn of(bounds: &[u32], items: Vec<u32>) -> Self {
        let mut partition = Self::new(items.len());
        partition.ranges = bounds.windows(2).filter(|w| w[0] < w[1]).map(|w| (w[0], w[1], 0)).collect();
        for (set, &(first, end, _)) in partition.ranges.iter().enumerate() {
            for at in first..end {
                let item = items[at as usize] as usize;
                partition.place[item] = at;
                partition.set_of[item] = set as u32;
            }
        }
        partition.items = items;
        partition
    }

    fn sets(&self) -> usize {
        self.ranges.len()
    }

    fn members(&self, set: usize) -> std::ops::Range<usize> {
        self.ranges[set].0 as usize..self.ranges[set].1 as usize
    }

    fn mark(&mut self, item: usize) {
        let set = self.set_of[item];
        let (first, _, marked) = &mut self.ranges[set as usize];
        let (at, to) = (self.place[item], *first + *marked);
        if at < to {
            return;
        }
        if *marked == 0 {
            self.touched.push(set);
        }
        *marked += 1;
        let other = self.items[to as usize];
        self.items.swap(at as usize, to as usize);
        self.place[other as usize] = at;
        self.place[item] = to;
    }

    fn split(&mut self) {
        while let Some(set) = self.touched.pop() {
            let (first, end, marked) = self.ranges[set as usize];
            self.ranges[set as usize].2 = 0;
            let middle = first + marked;
            if middle == end {
                continue;
            }
            // The smaller half gets the new number, which is what bounds the whole to n log n.
            let (kept, new) = if marked <= end - middle {
                ((middle, end, 0), (first, middle, 0))
            } else {
                ((first, middle, 0), (middle, end, 0))
            };
            self.ranges[set as usize] = kept;
            let number = self.ranges.len() as u32;
            self.ranges.push(new);
            for at in new.0..new.1 {
                self.set_of[self.items[at as usize] as usize] = number;
            }
        }
    }
}

/// The strongly connected component of every node, numbered so that a component's successors have lower numbers
/// (Tarjan, without recursion).
pub(crate) fn components<I: Iterator<Item = usize>>(count: usize, successors: impl Fn(usize) -> I) -> Vec<usize> {
    const UNSEEN: usize = usize::MAX;
    let (mut index, mut low) = (vec![UNSEEN; count], vec![0; count]);
    let mut component = vec![UNSEEN; count];
    let (mut stack, mut next, mut found) = (Vec::new(), 0, 0);
    for root in 0..count {
        if index[root] != UNSEEN {
            continue;
        }
        let mut calls = vec![(root, successors(root))];
        (index[root], low[root]) = (next, next);
        next += 1;
        stack.push(root);
        while let Some((node, rest)) = calls.last_mut() {
            let node = *node;
            match rest.next() {
                Some(to) if index[to] == UNSEEN => {
                    (index[to], low[to]) = (next, next);
                    next += 1;
                    stack.push(to);
                    calls.push((to, successors(to)));
                }
                Some(to) if component[to] == UNSEEN => low[node] = low[node].min(index[to]),
                Some(_) => {}
                None => {
                    calls.pop();
                    if let Some((parent, _)) = calls.last() {
                        low[*parent] = low[*parent].min(low[node]);
                    }
                    if low[node] == index[node] {
                        while let Some(member) = stack.pop() {
                            component[member] = found;
                            if member == node {
                                break;
                            }
                        }
                        found += 1;
                    }
                }
            }
        }
    }
    component
}
