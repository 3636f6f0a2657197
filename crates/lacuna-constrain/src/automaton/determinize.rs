use std::{collections::HashMap, rc::Rc};

use super::{
    Budget, Dfa, DfaBuilder, Grammar, NODES,
    grammar::{Graph, RETURN, When},
    too_large,
};
use crate::Refused;

/// The minimal automaton of a grammar in which recursive rules are nested at most `depth` deep, and whether that bound has
/// left anything out. A call at the very end of a rule is a jump and does not nest.
pub(crate) fn determinize(grammar: &Grammar, depth: usize, budget: &Budget) -> Result<(Dfa, bool), Refused> {
    let graph = Graph::new(grammar, budget)?;
    let (classes, firsts) = byte_classes(&graph);
    let mut places = Places::new(&graph, depth, budget);
    let root = places.place(graph.entries[grammar.root], EMPTY)?;
    let start = places.closure(&[root], true)?;
    let mut heads: Vec<Vec<u32>> = vec![Vec::new(); firsts.len()];
    let mut first = true;
    let dfa = DfaBuilder::new(classes.clone(), start).build(budget, |set, successors| {
        let accepts = places.accepts(set, std::mem::take(&mut first))?;
        heads.iter_mut().for_each(Vec::clear);
        for &place in set.iter() {
            for (low, high, to) in places.reads(place)? {
                let (low, high) = (classes[low as usize] as usize, classes[high as usize] as usize);
                heads[low..=high].iter_mut().for_each(|head| head.push(to));
                budget.spend(high - low + 1)?;
            }
        }
        for (class, head) in heads.iter().enumerate() {
            successors.push(match head.as_slice() {
                [] => None,
                // Neighbouring classes mostly lead to the same places.
                _ if class > 0 && heads[class - 1] == *head => successors[class - 1].clone(),
                _ => Some(places.closure(head, false)?).filter(|set| !set.is_empty()),
            });
        }
        Ok(accepts)
    })?;
    Ok((dfa, places.cut))
}

/// Bytes that no range in the graph tells apart share a class; classes are runs of bytes.
fn byte_classes(graph: &Graph) -> (Vec<u8>, Vec<u8>) {
    let mut begins = [false; 257];
    begins[0] = true;
    for &(low, high, _) in graph.nodes.iter().flat_map(|node| &node.bytes) {
        begins[low as usize] = true;
        begins[high as usize + 1] = true;
    }
    let firsts: Vec<u8> = (0..=255u8).filter(|&byte| begins[byte as usize]).collect();
    let classes = (0..=255u8).map(|byte| firsts.partition_point(|&first| first <= byte) as u8).map(|c| c - 1);
    (classes.collect(), firsts)
}

/// The stack with nothing on it.
const EMPTY: u32 = 0;

/// Places in the unrolled grammar: a node and the stack of nodes to return to. Both are numbered as they are met.
struct Places<'a> {
    graph: &'a Graph,
    depth: usize,
    /// The depth has kept a rule from being called.
    cut: bool,
    /// Frames of stacks: the node to return to, the stack below, the nesting.
    stacks: Vec<(u32, u32, usize)>,
    stack_ids: HashMap<(u32, u32, usize), u32>,
    places: Vec<(u32, u32)>,
    place_ids: HashMap<(u32, u32), u32>,
    /// The closure in which a place was last met.
    met: Vec<u32>,
    closures: u32,
    budget: &'a Budget,
}

impl<'a> Places<'a> {
    fn new(graph: &'a Graph, depth: usize, budget: &'a Budget) -> Self {
        Self {
            graph,
            depth,
            cut: false,
            stacks: vec![(RETURN, EMPTY, 0)],
            stack_ids: HashMap::new(),
            places: Vec::new(),
            place_ids: HashMap::new(),
            met: Vec::new(),
            closures: 0,
            budget,
        }
    }

    fn place(&mut self, node: u32, stack: u32) -> Result<u32, Refused> {
        if let Some(&id) = self.place_ids.get(&(node, stack)) {
            return Ok(id);
        }
        if self.places.len() >= NODES {
            return Err(too_large("its parts, with every rule written out where it is used,", NODES));
        }
        let id = self.places.len() as u32;
        self.place_ids.insert((node, stack), id);
        self.places.push((node, stack));
        self.met.push(0);
        Ok(id)
    }

    fn push(&mut self, node: u32, below: u32, nesting: usize) -> u32 {
        let next = self.stacks.len() as u32;
        let id = *self.stack_ids.entry((node, below, nesting)).or_insert(next);
        if id == next {
            self.stacks.push((node, below, nesting));
        }
        id
    }

    /// The bytes that are read at a place, and where they lead.
    fn reads(&mut self, place: u32) -> Result<Vec<(u8, u8, u32)>, Refused> {
        let (node, stack) = self.places[place as usize];
        let graph = self.graph;
        (graph.nodes[node as usize].bytes.iter())
            .map(|&(low, high, to)| Ok((low, high, self.place(to, stack)?)))
            .collect()
    }

    /// Targets that a place reaches without reading.
    fn jumps(&mut self, place: u32, out: &mut Vec<(When, u32)>) -> Result<(), Refused> {
        let (node, stack) = self.places[place as usize];
        if node == RETURN {
            if stack != EMPTY {
                let (node, below, _) = self.stacks[stack as usize];
                out.push((When::Always, self.place(node, below)?));
            }
            return Ok(());
        }
        let graph = self.graph;
        let here = &graph.nodes[node as usize];
        for &(when, to) in &here.jumps {
            out.push((when, self.place(to, stack)?));
        }
        if let Some(call) = here.call {
            let entry = graph.entries[call.rule as usize];
            let nesting = self.stacks[stack as usize].2 + usize::from(call.nests);
            if call.next == RETURN {
                out.push((When::Always, self.place(entry, stack)?));
            } else if nesting <= self.depth {
                let stack = self.push(call.next, stack, nesting);
                out.push((When::Always, self.place(entry, stack)?));
            } else {
                self.cut = true;
            }
        }
        Ok(())
    }

    /// The places that can be reached without reading and that matter later: those that read, those that end, and those
    /// that wait for the end.
    fn closure(&mut self, from: &[u32], start: bool) -> Result<Rc<[u32]>, Refused> {
        let mut set = Vec::new();
        self.visit(
            from,
            |when| when == When::Always || (start && when == When::Start),
            |place, matters| {
                if matters {
                    set.push(place);
                }
            },
        )?;
        set.sort_unstable();
        Ok(set.into())
    }

    fn accepts(&mut self, set: &[u32], start: bool) -> Result<bool, Refused> {
        let mut ends = false;
        let end = self.place(RETURN, EMPTY)?;
        self.visit(set, |when| start || when != When::Start, |place, _| ends |= place == end)?;
        Ok(ends)
    }

    fn visit(
        &mut self,
        from: &[u32],
        pass: impl Fn(When) -> bool,
        mut each: impl FnMut(u32, bool),
    ) -> Result<(), Refused> {
        self.closures += 1;
        let mut todo = from.to_vec();
        let mut jumps = Vec::new();
        while let Some(place) = todo.pop() {
            if std::mem::replace(&mut self.met[place as usize], self.closures) == self.closures {
                continue;
            }
            jumps.clear();
            self.jumps(place, &mut jumps)?;
            self.budget.spend(1 + jumps.len())?;
            let reads = !self.graph.nodes[self.places[place as usize].0 as usize].bytes.is_empty();
            let ends = self.places[place as usize] == (RETURN, EMPTY);
            let waits = jumps.iter().any(|&(when, _)| when == When::End);
            each(place, reads || ends || waits);
            todo.extend(jumps.iter().filter(|&&(when, _)| pass(when)).map(|&(_, to)| to));
        }
        Ok(())
    }
}
