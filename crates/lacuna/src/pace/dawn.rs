//! DAWN: positions that do not depend on each other.

use super::{Pace, Reads};
use crate::catalogue::{Default, Kind, Parameter, Part, Range};
use crate::{Block, Canvas, Description, Ranked, Result, StepContext, Target};

/// DAWN: attention makes a graph of the positions. Committed are confident positions, less confident ones with an edge to a sure
/// token, and of the rest a set without edges among each other, taken in the order's ranking.
#[derive(Clone, Debug)]
pub struct Dawn {
    /// Layers whose attention is averaged; the last four if not given.
    pub layers: Option<Vec<usize>>,
    /// A position that gets more attention than this on average is a sink, which has no edges to it.
    pub sink: f64,
    /// Attention that makes an edge.
    pub edge: f64,
    /// Confidence to reach with an edge to a sure token.
    pub induced: f64,
    /// Confidence to reach without one.
    pub low: f64,
}

/// Confidence of a position that is committed by itself, and of a token that is sure.
const CONFIDENT: f64 = 0.9;
/// Layers whose attention is averaged, if none are given: the last ones.
const LAST_LAYERS: usize = 4;

const SHARE: Kind = Kind::Number(Range::closed(0.0, 1.0));
const LAYERS: Parameter = Parameter::new(
    "graph_layers",
    Kind::Integers,
    Default::Depends("the last four"),
    "layers whose attention makes the graph, from 0",
);
const SINK: Parameter = Parameter::new(
    "tau_sink",
    SHARE,
    Default::Number(0.01),
    "mean attention above which a position is a sink, to which nothing depends",
);
const EDGE: Parameter =
    Parameter::new("tau_edge", SHARE, Default::Number(0.07), "attention from which on a position depends on another");
const INDUCE: Parameter = Parameter::new(
    "tau_induce",
    SHARE,
    Default::Number(0.7),
    "confidence to reach if a position depends on a sure token",
);
const LOW: Parameter = Parameter::new(
    "tau_low",
    SHARE,
    Default::Number(0.7),
    "confidence to reach by positions that do not depend on each other",
);

pub(super) fn part() -> Part {
    let about = "all that are confident, or that depend on sure tokens, or not on each other (DAWN)";
    Part::pace("dawn", about, |given| {
        let [sink, edge, induced, low] =
            ["tau_sink", "tau_edge", "tau_induce", "tau_low"].map(|name| given.number(name));
        Ok(Box::new(Dawn { layers: given.integers("graph_layers"), sink, edge, induced, low }))
    })
    .parameters(&[LAYERS, SINK, EDGE, INDUCE, LOW])
}

impl Dawn {
    /// The keys that are no sinks.
    fn keys(&self, context: &StepContext<'_>) -> Vec<bool> {
        let length = context.canvas().len();
        let mean = |key| (0..length).map(|from| f64::from(context.attention(from, key))).sum::<f64>() / length as f64;
        (0..length).map(|key| mean(key) <= self.sink).collect()
    }
}

impl Pace for Dawn {
    fn reads(&self, _block: &Block, _candidates: usize) -> Reads {
        Reads::All
    }

    fn rows(&self, canvas: &Canvas, block: &Block) -> Vec<Target> {
        (0..block.range.end).filter(|&position| !canvas.is_masked(position)).map(Target::Position).collect()
    }

    fn matrix(&self, model: &Description) -> Vec<usize> {
        let last = || (model.layers.saturating_sub(LAST_LAYERS)..model.layers.max(1)).collect();
        self.layers.clone().unwrap_or_else(last)
    }

    fn choose(&mut self, ranked: &Ranked<'_>) -> Result<Vec<usize>> {
        let (context, beliefs) = (ranked.context(), ranked.beliefs());
        let keys = self.keys(context);
        let edge =
            |from: usize, to: usize| from != to && keys[to] && f64::from(context.attention(from, to)) >= self.edge;
        let decided = self.rows(context.canvas(), context.block()).into_iter().map(Target::position);
        let sure: Vec<usize> = decided.filter(|&position| context.belief(position).first >= CONFIDENT).collect();

        let count = ranked.positions().len();
        let position = |rank: usize| ranked.positions()[rank];
        let confidence = |rank: usize| beliefs[rank].probability;
        let confident: Vec<bool> = (0..count).map(|rank| confidence(rank) >= CONFIDENT).collect();
        let depends = |rank: usize| sure.iter().any(|&key| edge(position(rank), key));
        let induced: Vec<bool> = (0..count).map(|rank| confidence(rank) >= self.induced && depends(rank)).collect();
        let settling: Vec<usize> = (0..count).filter(|&rank| confident[rank] && induced[rank]).map(position).collect();

        let mut chosen: Vec<usize> =
            (0..count).filter(|&rank| confident[rank] || induced[rank]).map(position).collect();
        let mut independent: Vec<usize> = Vec::new();
        for rank in (0..count).filter(|&rank| !confident[rank] && !induced[rank] && confidence(rank) >= self.low) {
            let node = position(rank);
            let blocked = settling.iter().any(|&key| edge(node, key));
            if !blocked && !independent.iter().any(|&other| edge(node, other) || edge(other, node)) {
                independent.push(node);
            }
        }
        chosen.extend(independent);
        Ok(if chosen.is_empty() { ranked.first(1) } else { chosen })
    }
}
