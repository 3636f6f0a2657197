//! Packing of views into the rows of one forward pass.

use lacuna::{Borders, Compute, Target, Token, View};

use crate::{Error, Result};

/// All views back to back, each with its tokens first and its shadows behind them. There is no padding.
///
/// Rows are what is computed, keys are what can be seen. They are the same, unless a view computes only some of its positions.
#[derive(Default)]
pub(crate) struct Layout {
    pub(crate) spans: Vec<Span>,
    /// Token of each row.
    pub(crate) tokens: Vec<Token>,
    /// Position of each row in its canvas. A shadow has the position it shadows.
    pub(crate) positions: Vec<usize>,
    /// The same for each key.
    pub(crate) key_positions: Vec<usize>,
    /// 1 for keys that are unmasked, 0 for masks and shadows: what the dependency score sums over.
    pub(crate) open: Vec<f32>,
    mask: Token,
    /// True if position i is predicted from row i − 1.
    shifted: bool,
    /// The blocks of views that name none.
    blocks: Option<Borders>,
}

/// Use that a view makes of its run's cached keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caching {
    /// Nothing.
    Off,
    /// It computes all positions and caches their keys and values.
    Store,
    /// It computes some positions, replaces their cached keys and values, and attends to the others'.
    Update,
}

/// The rows and keys of one view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) run: u64,
    pub(crate) caching: Caching,
    /// The first row.
    pub(crate) start: usize,
    /// Number of rows that are tokens.
    pub(crate) tokens: usize,
    /// The first key.
    pub(crate) key_start: usize,
    /// Number of keys that are tokens: all positions, or those up to the end of the last block that is computed.
    pub(crate) length: usize,
    /// Positions of the canvas.
    pub(crate) canvas: usize,
    /// Number of rows, and keys, behind them that are shadows.
    pub(crate) shadows: usize,
    /// Blocks of block-causal attention.
    pub(crate) blocks: Option<Borders>,
}

impl Span {
    /// Length of the prefix that a position sees.
    pub(crate) fn prefix(&self, position: usize) -> usize {
        self.blocks.map_or(self.length, |blocks| blocks.end(position).min(self.length))
    }

    /// Length of the first block of block-causal attention, and of the others; 0 if there are none.
    pub(crate) fn block_lengths(&self) -> (usize, usize) {
        self.blocks.map_or((0, 0), |blocks| (blocks.end(0), blocks.length()))
    }

    /// Tokens and shadows that are computed.
    pub(crate) fn rows(&self) -> usize {
        self.tokens + self.shadows
    }

    /// Tokens and shadows that are seen.
    pub(crate) fn keys(&self) -> usize {
        self.length + self.shadows
    }

    /// The row behind the last.
    pub(crate) fn end(&self) -> usize {
        self.start + self.rows()
    }
}

impl Layout {
    /// A layout of no views; `blocks` are those of views that name none.
    pub(crate) fn new(shifted: bool, blocks: Option<Borders>) -> Self {
        Self { shifted, blocks, ..Self::default() }
    }

    /// Packs `views` in place of what was packed before.
    pub(crate) fn pack(&mut self, views: &[View<'_>], mask: Token) {
        let Self { spans, tokens, positions, key_positions, open, .. } = self;
        spans.clear();
        tokens.clear();
        positions.clear();
        key_positions.clear();
        open.clear();
        self.mask = mask;
        for view in views {
            let blocks = view.blocks.or(self.blocks);
            let length = match (view.compute, blocks) {
                (Compute::Only(&[.., last]), Some(blocks)) => blocks.end(last).min(view.tokens.len()),
                _ => view.tokens.len(),
            };
            let caching = match view.compute {
                Compute::All | Compute::Refresh(_) => Caching::Off,
                Compute::AllAndCache => Caching::Store,
                Compute::Only(_) => Caching::Update,
            };
            let start = tokens.len();
            match view.compute {
                Compute::All | Compute::AllAndCache | Compute::Refresh(_) => {
                    tokens.extend(view.tokens);
                    positions.extend(0..length);
                }
                Compute::Only(computed) => {
                    tokens.extend(computed.iter().map(|&position| view.tokens[position]));
                    positions.extend(computed);
                }
            }
            spans.push(Span {
                run: view.run,
                caching,
                start,
                tokens: tokens.len() - start,
                key_start: open.len(),
                length,
                canvas: view.tokens.len(),
                shadows: view.shadows.len(),
                blocks,
            });
            tokens.resize(tokens.len() + view.shadows.len(), mask);
            positions.extend(view.shadows);
            key_positions.extend((0..length).chain(view.shadows.iter().copied()));
            open.extend(view.tokens[..length].iter().map(|&token| if token == mask { 0.0 } else { 1.0 }));
            open.resize(open.len() + view.shadows.len(), 0.0);
        }
    }

    /// Number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.tokens.len()
    }

    /// The attention that flows to each position of a view: column sums of the product of all layers, made from the last layer down. A
    /// layer is `[row][position]`: what each row pays, the mean over heads.
    pub(crate) fn rollout<'a>(&self, view: usize, layers: impl DoubleEndedIterator<Item = &'a [f32]>) -> Vec<f32> {
        let span = self.spans[view];
        let positions = &self.positions[span.start..span.start + span.tokens];
        let mut flow = vec![1.0; span.length];
        for paid in layers.rev() {
            let mut below = flow.clone();
            positions.iter().for_each(|&position| below[position] = 0.0);
            for (paid, &position) in paid.chunks_exact(span.length).zip(positions) {
                let share = flow[position] / (1.0 + paid.iter().map(|paid| f64::from(*paid)).sum::<f64>());
                below[position] += share;
                below.iter_mut().zip(paid).for_each(|(below, paid)| *below += share * f64::from(*paid));
            }
            flow = below;
        }
        flow.into_iter().map(|flow| flow as f32).collect()
    }

    /// True if a mask stands in a row.
    pub(crate) fn is_masked(&self, row: usize) -> bool {
        self.tokens[row] == self.mask
    }

    /// True if some view sees more than is computed, or is to be seen later.
    pub(crate) fn caches(&self) -> bool {
        self.spans.iter().any(|span| span.caching != Caching::Off)
    }

    /// Number of keys.
    pub(crate) fn keys(&self) -> usize {
        self.open.len()
    }

    /// The key of a place.
    pub(crate) fn key(&self, view: usize, place: Target) -> Result<usize> {
        let span = self.span(view)?;
        let keys = span.key_start..span.key_start + span.keys();
        let found = match place {
            Target::Position(position) => (position < span.length).then_some(span.key_start + position),
            Target::Shadow(position) => keys.clone().skip(span.length).find(|&key| self.key_positions[key] == position),
        };
        found.ok_or_else(|| unobserved(view, place))
    }

    /// A number of a place that can be predicted, below [`places`](Self::places): its key, with one more behind the tokens of each
    /// view for the position that the last row of a shifted model predicts.
    pub(crate) fn place(&self, view: usize, place: Target) -> Result<usize> {
        let span = self.span(view)?;
        let next = matches!(place, Target::Position(position) if position == span.length);
        let key = if next { span.key_start + span.length } else { self.key(view, place)? };
        Ok(key + view + usize::from(matches!(place, Target::Shadow(_))))
    }

    /// Number of such values.
    pub(crate) fn places(&self) -> usize {
        self.keys() + self.spans.len()
    }

    /// The row that predicts a place.
    pub(crate) fn row(&self, view: usize, place: Target) -> Result<usize> {
        let span = self.span(view)?;
        let row = match place {
            // The last row of a block predicts the first position of the next, which is no key yet.
            Target::Position(position) => {
                let predicting = if self.shifted { position.saturating_sub(1) } else { position };
                self.positions[span.start..][..span.tokens].binary_search(&predicting).ok()
            }
            Target::Shadow(_) => Some(span.tokens + self.key(view, place)? - span.key_start - span.length),
        };
        row.map(|row| span.start + row).ok_or_else(|| unobserved(view, place))
    }

    /// The rows of a view's tokens at these positions, or of all that were computed.
    pub(crate) fn output_rows(&self, view: usize, positions: Option<&[usize]>) -> Result<Vec<usize>> {
        let Span { start, tokens, .. } = *self.span(view)?;
        let Some(positions) = positions else { return Ok((start..start + tokens).collect()) };
        let computed = &self.positions[start..][..tokens];
        let row = |position: &usize| match computed.binary_search(position) {
            Ok(row) => Ok(start + row),
            Err(_) => Err(unobserved(view, Target::Position(*position))),
        };
        positions.iter().map(row).collect()
    }

    fn span(&self, view: usize) -> Result<&Span> {
        let count = self.spans.len();
        let unknown = || Error::Request(format!("view {view} was not among the {count} observed last"));
        self.spans.get(view).ok_or_else(unknown)
    }
}

fn unobserved(view: usize, place: Target) -> Error {
    Error::Request(format!("{place:?} was not among the places observed of view {view}"))
}

/// Some rows of a layout, ascending, and their division into tiles.
#[derive(Default)]
pub(crate) struct Selection {
    pub(crate) rows: Vec<usize>,
    pub(crate) tiles: Vec<Tile>,
}

/// Rows of a selection that see the same keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tile {
    pub(crate) view: usize,
    /// True if they are shadows.
    pub(crate) shadow: bool,
    /// The first, as an index into the selection.
    pub(crate) first: usize,
    /// Number of rows.
    pub(crate) count: usize,
}

impl Selection {
    /// Selects `rows`, which must ascend, in place of what was selected before. No tile gets more than `most` of them.
    pub(crate) fn select(&mut self, layout: &Layout, rows: impl Iterator<Item = usize>, most: usize) {
        let Self { rows: selected, tiles } = self;
        selected.clear();
        tiles.clear();
        let mut view = 0;
        for row in rows {
            while layout.spans[view].end() <= row {
                view += 1;
            }
            let shadow = row >= layout.spans[view].start + layout.spans[view].tokens;
            match tiles.last_mut() {
                Some(tile) if (tile.view, tile.shadow) == (view, shadow) && tile.count < most => tile.count += 1,
                _ => tiles.push(Tile { view, shadow, first: selected.len(), count: 1 }),
            }
            selected.push(row);
        }
    }

    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view<'a>(tokens: &'a [Token], shadows: &'a [usize]) -> View<'a> {
        View { tokens, shadows, ..View::default() }
    }

    fn packed(views: &[View<'_>], shifted: bool) -> Layout {
        let mut layout = Layout::new(shifted, None);
        layout.pack(&[view(&[1, 2], &[])], 9);
        layout.pack(views, 9);
        layout
    }

    #[test]
    fn views_are_packed_without_padding_and_shadows_follow_their_tokens() {
        let layout = packed(&[view(&[4, 9, 9], &[1]), view(&[9, 4], &[])], false);
        assert_eq!(layout.tokens, [4, 9, 9, 9, 9, 4]);
        assert_eq!(layout.positions, [0, 1, 2, 1, 0, 1]);
        assert_eq!(layout.open, [1.0, 0.0, 0.0, 0.0, 0.0, 1.0]);
        assert_eq!(layout.row(0, Target::Shadow(1)).unwrap(), 3);
        assert_eq!(layout.key(0, Target::Shadow(1)).unwrap(), 3);
        assert_eq!(layout.key(1, Target::Position(1)).unwrap(), 5);
        assert_eq!(layout.row(1, Target::Position(1)).unwrap(), 5);
        assert!(layout.row(1, Target::Position(2)).is_err());
        assert!(layout.row(0, Target::Shadow(2)).is_err());
        assert!(layout.row(2, Target::Position(0)).is_err());
    }

    #[test]
    fn a_shifted_model_predicts_from_the_row_before() {
        let layout = packed(&[view(&[4, 9, 9], &[]), view(&[9, 4], &[])], true);
        let rows: Vec<usize> = (0..3).map(|position| layout.row(0, Target::Position(position)).unwrap()).collect();
        assert_eq!(rows, [0, 0, 1]);
        assert_eq!(layout.row(1, Target::Position(0)).unwrap(), 3);
    }

    #[test]
    fn a_view_that_computes_some_positions_sees_all() {
        let some = View { compute: Compute::Only(&[1, 2]), ..view(&[4, 9, 9, 9], &[]) };
        let layout = packed(&[view(&[9, 4], &[]), some], false);
        assert_eq!(layout.positions, [0, 1, 1, 2]);
        assert_eq!(layout.key_positions, [0, 1, 0, 1, 2, 3]);
        assert_eq!(layout.open, [0.0, 1.0, 1.0, 0.0, 0.0, 0.0]);
        assert_eq!(layout.row(1, Target::Position(2)).unwrap(), 3);
        assert_eq!((layout.key(1, Target::Position(2)).unwrap(), layout.keys()), (4, 6));
        assert!(layout.row(1, Target::Position(0)).is_err() && layout.row(1, Target::Position(3)).is_err());
        let shifted = packed(&[some], true);
        assert_eq!(shifted.row(0, Target::Position(3)).unwrap(), 1);
        let places = [Target::Position(0), Target::Position(1), Target::Position(2), Target::Shadow(1)];
        let layout = packed(&[view(&[4, 9], &[1]), view(&[9, 4], &[])], true);
        let numbers = (0..2).flat_map(|view| places.map(|place| layout.place(view, place).ok()));
        assert!(numbers.flatten().eq(0..layout.places()));
        assert!(shifted.row(0, Target::Position(1)).is_err());
    }

    #[test]
    fn tiles_never_mix_views_or_kinds_and_never_exceed_their_size() {
        let tokens = vec![9; 60];
        let layout = packed(&[view(&tokens, &[3, 4]), view(&tokens[..5], &[])], false);
        let mut selection = Selection::default();
        selection.select(&layout, 0..layout.rows(), 24);
        let shape: Vec<_> =
            selection.tiles.iter().map(|tile| (tile.view, tile.shadow, tile.first, tile.count)).collect();
        assert_eq!(
            shape,
            [(0, false, 0, 24), (0, false, 24, 24), (0, false, 48, 12), (0, true, 60, 2), (1, false, 62, 5)]
        );
    }
}
