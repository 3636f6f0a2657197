//! Steps allocate what they return and nothing else, and what is held is what was planned.
#![allow(unsafe_code, reason = "an allocator that counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use lacuna::{AttentionSource, Draw, Predictor, Row, Sampling, Target, Token, TokenSet, View};
use lacuna_models::{Checkpoint, CpuPredictor, Model, Precision, Shape};

struct Counting;

static CALLS: AtomicUsize = AtomicUsize::new(0);
static HELD: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.fetch_add(1, Relaxed);
        HELD.fetch_add(layout.size(), Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const LENGTH: usize = 200;
const ROWS: usize = 100;
/// The returned vectors (two for each view's scores, one for the views, one for the beliefs) and what the thread pool
/// allocates now and then for its queues.
const RETURNED: usize = 16;

#[test]
fn a_steady_step_allocates_only_what_it_returns_and_buffers_are_as_planned() {
    let checkpoint = Checkpoint::random(Shape::Mini).unwrap();
    for precision in [Precision::F32, Precision::Bf16, Precision::Int8, Precision::Int4] {
        let mut model = CpuPredictor::load(&checkpoint, Some(precision)).unwrap();
        let loaded = HELD.load(Relaxed);
        let planned = model.memory(LENGTH).buffers;
        let mask = model.description().mask;
        let tokens: Vec<Token> = (0..LENGTH).map(|i| if i < LENGTH - ROWS { 10 + i as Token } else { mask }).collect();
        let attention = [AttentionSource { layer: 1, heads: Vec::new() }];
        let (sampling, allowed) = (Sampling::default(), TokenSet::all_but(model.description().vocabulary, &[mask]));
        let row = |position| Row {
            remember: true,
            ..Row::new(0, Target::Position(position), &sampling, &allowed, Draw::new(0, 0, position))
        };
        let rows: Vec<Row<'_>> = (LENGTH - ROWS..LENGTH).map(row).collect();
        let mut step = || {
            let calls = CALLS.load(Relaxed);
            model.observe(&[View { tokens: &tokens, attention: &attention, ..View::default() }]).unwrap();
            model.read(&rows).unwrap();
            model.read(&rows[..1]).unwrap();
            CALLS.load(Relaxed) - calls
        };
        step();
        let held = HELD.load(Relaxed) - loaded;
        let remembered = ROWS * checkpoint.architecture().vocabulary * 4;
        let buffers = held.saturating_sub(remembered) as f64;
        // Beside the buffers there are each thread's, and small ones for rows and tiles.
        assert!((0.9..1.4).contains(&(buffers / planned as f64)), "{precision:?}: {buffers} held, {planned} planned");

        step();
        let fewest = (0..8).map(|_| step()).min().unwrap();
        assert!(fewest <= RETURNED, "{precision:?}: a step allocates {fewest} times");
    }
}
