//! A microkernel, and the layout of the operands that it takes.

use std::marker::PhantomData;

use super::Element;

/// Destination of a tile.
#[derive(Clone, Copy)]
pub(crate) struct Output {
    pub(crate) start: *mut f32,
    /// From one row to the next.
    pub(crate) stride: usize,
    /// At most [`Kernel::rows`].
    pub(crate) rows: usize,
    /// At most [`Kernel::columns`].
    pub(crate) columns: usize,
    /// Adds to what stands there.
    pub(crate) add: bool,
}

/// Cache lines to prefetch while a tile is computed: a share of the weights that come next.
#[derive(Clone, Copy)]
pub(crate) struct Ahead {
    pub(crate) start: *const u8,
    pub(crate) lines: usize,
}

/// `output[r][c] (+)= Σ activations[r][k] · weights[k][c]` over `depth` values of `k`.
///
/// # Safety
/// `activations` is a run of a panel of rows in the kernel's layout, with its trailer; the first `output.rows` rows are filled.
/// `weights` is a run of a panel of columns: `depth` × [`Kernel::columns`] values in panel order, and behind them the trailer.
/// `output` can be written and is nobody else's; the machine has the instructions; the kernel's [`Session`] is open on this
/// thread. `depth` is a multiple of [`Kernel::step`] and at most [`Kernel::depth`].
pub(crate) type Tile<E> =
    unsafe fn(activations: *const u8, weights: *const E, depth: usize, output: Output, ahead: Ahead);

/// Some rows of numbers in memory.
#[derive(Clone, Copy)]
pub(crate) struct Rows {
    pub(crate) start: *mut f32,
    /// From one row to the next.
    pub(crate) stride: usize,
}

impl Rows {
    /// The rows from a row and column on.
    pub(crate) fn at(&self, row: usize, column: usize) -> Self {
        Self { start: self.start.wrapping_add(row * self.stride + column), stride: self.stride }
    }
}

/// Copies `rows` rows of at most [`Kernel::columns`] columns, or adds them to what stands there.
///
/// # Safety
/// Both places have the rows and columns, and nobody else reads or writes them; the machine has the instructions.
pub(crate) type CopyRows = unsafe fn(from: Rows, to: Rows, rows: usize, columns: usize, add: bool);

/// A microkernel for weights of type `E` and its tile geometry.
///
/// | operand | layout |
/// |---|---|
/// | weights | panels of `columns` columns, `k` padded to a multiple of `step`; inside, groups of [`Element::GROUP`] values of `k`, and in each group column after column |
/// | activations | panels of `rows` rows in runs of `depth` values of `k`; inside, blocks of `block` values, and in each block row after row |
pub(crate) struct Kernel<E: 'static> {
    /// Rows of a tile.
    pub(crate) rows: usize,
    /// Columns of a tile.
    pub(crate) columns: usize,
    /// Both operands are padded with zeros to a multiple of this many values of `k`, a power of two.
    pub(crate) step: usize,
    /// Values of `k` that are summed in registers at a time, so that a run of a weight panel stays in a near cache.
    pub(crate) depth: usize,
    /// Values of `k` that stand side by side in a row of activations.
    pub(crate) block: usize,
    /// Bytes of an activation.
    pub(crate) size: usize,
    /// Most rows of a task: with a run of `depth` values they stay in the second cache.
    pub(crate) task_rows: usize,
    /// If there is one, sums of several runs are kept side by side, and copied where they belong when they are whole, unless rows are near
    /// each other there. Otherwise they are added there run by run, which costs less where a tile is stored row by row; only tiles
    /// that belong to several blocks of columns are copied then too.
    pub(crate) copy: Option<CopyRows>,
    /// Rounds a row of activations to multiples of a scale and writes it block by block.
    pub(crate) narrow: fn(values: &[f32], scale: f32, blocks: Blocks<'_>),
    pub(crate) tile: Tile<E>,
    /// Prepares a thread for tiles.
    pub(crate) begin: unsafe fn(),
    /// Takes that back.
    pub(crate) end: unsafe fn(),
}

/// Destination of a run of a row of activations.
pub(crate) struct Blocks<'a> {
    /// The bytes of the run from the row's first value on.
    pub(crate) bytes: &'a mut [u8],
    /// Values of a block.
    pub(crate) block: usize,
    /// Bytes from a block to the next.
    pub(crate) stride: usize,
}

impl<E: Element> Kernel<E> {
    /// Bytes of a run of a panel of rows.
    pub(super) fn run_bytes(&self) -> usize {
        self.rows * self.depth * self.size + self.row_trailer()
    }

    /// Bytes of a panel of rows of `k` values.
    pub(super) fn panel_bytes(&self, k: usize) -> usize {
        k.div_ceil(self.depth) * self.run_bytes()
    }

    /// The scales of the rows behind each run, rounded up to a cache line.
    fn row_trailer(&self) -> usize {
        if E::SCALED { (self.rows * size_of::<f32>()).next_multiple_of(64) } else { 0 }
    }

    /// Elements behind each run of a panel of columns: for each column where its sum starts from, and its scale.
    pub(super) fn column_trailer(&self) -> usize {
        if E::SCALED { self.columns * 2 * size_of::<f32>() / size_of::<E>() } else { 0 }
    }

    /// Lays out values of a row in a run of its panel, from `k = from` of the run on, and zeros behind them up to a multiple of
    /// [`Kernel::step`]. `from` begins a block, or all values belong to one.
    pub(super) fn put(&self, run: &mut [u8], row: usize, from: usize, values: &[f32], scale: f32) {
        let row_bytes = self.block * self.size;
        let stride = self.rows * row_bytes;
        let place = |k: usize| k / self.block * stride + row * row_bytes + k % self.block * self.size;
        let end = from + values.len();
        // A group may stand in any order, so all of the last one.
        let padded = (end + self.step - 1) & !(self.step - 1);
        for k in end / E::GROUP * E::GROUP..padded {
            run[place(k)..][..self.size].fill(0);
        }
        (self.narrow)(values, scale, Blocks { bytes: &mut run[place(from)..], block: self.block, stride });
    }

    /// Writes the scale of a row behind a run.
    pub(super) fn put_scale(&self, run: &mut [u8], row: usize, scale: f32) {
        if E::SCALED {
            let start = self.rows * self.depth * self.size + row * size_of::<f32>();
            run[start..start + size_of::<f32>()].copy_from_slice(&scale.to_ne_bytes());
        }
    }

    /// Prepares this thread for tiles until the session is dropped.
    #[allow(unsafe_code)]
    pub(super) fn session(&self) -> Session {
        // SAFETY: a kernel is only picked on machines that have its instructions.
        unsafe { (self.begin)() };
        Session { end: self.end, thread: PhantomData }
    }
}

/// The time in which a thread computes tiles.
pub(super) struct Session {
    end: unsafe fn(),
    /// It is of one thread.
    thread: PhantomData<*const ()>,
}

impl Drop for Session {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: the session was begun on this thread.
        unsafe { (self.end)() };
    }
}

/// For kernels that need no preparation.
pub(super) fn nothing() {}
