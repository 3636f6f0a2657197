use super::{Budget, DEAD, Dfa, DfaBuilder};
use crate::Refused;

/// The texts that both accept.
pub(crate) fn intersect(a: &Dfa, b: &Dfa, budget: &Budget) -> Result<Dfa, Refused> {
    let (classes, bytes) = joint_classes(a, b);
    DfaBuilder::new(classes, (0, 0)).build(budget, |&(x, y), successors| {
        successors.extend(bytes.iter().map(|&byte| match (a.next(x, byte), b.next(y, byte)) {
            (DEAD, _) | (_, DEAD) => None,
            pair => Some(pair),
        }));
        Ok(a.accepts(x) && b.accepts(y))
    })
}

/// The texts that `a` accepts and `b` does not.
pub(crate) fn subtract(a: &Dfa, b: &Dfa, budget: &Budget) -> Result<Dfa, Refused> {
    let (classes, bytes) = joint_classes(a, b);
    DfaBuilder::new(classes, (0, 0)).build(budget, |&(x, y), successors| {
        successors.extend(bytes.iter().map(|&byte| {
            let next = if y == DEAD { DEAD } else { b.next(y, byte) };
            Some((a.next(x, byte), next)).filter(|pair| pair.0 != DEAD)
        }));
        Ok(a.accepts(x) && (y == DEAD || !b.accepts(y)))
    })
}

/// Classes of bytes that neither tells apart, and one byte of each.
fn joint_classes(a: &Dfa, b: &Dfa) -> (Vec<u8>, Vec<u8>) {
    let mut pairs: Vec<(usize, usize)> = Vec::new();
    let mut bytes = Vec::new();
    let classes = (0..=255u8).map(|byte| {
        let pair = (a.class(byte), b.class(byte));
        let class = pairs.iter().position(|&known| known == pair).unwrap_or_else(|| {
            pairs.push(pair);
            bytes.push(byte);
            pairs.len() - 1
        });
        class as u8
    });
    let classes = classes.collect();
    (classes, bytes)
}
