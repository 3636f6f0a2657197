//! Transfers between the host and the GPU through pinned memory, without a wait for each.
#![allow(unsafe_code, reason = "memory that the GPU copies from and to by itself")]

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::sync::Arc;

use cudarc::driver::{result, sys};

use super::buffer::{Buffer, DeviceSlice, Plain};
use super::event::Event;
use super::gpu::Gpu;
use crate::Result;

const ALIGNMENT: usize = 16;
const INITIAL_BYTES: usize = 1 << 16;

/// Gathers lists on the host and sends them to the GPU in one copy.
pub(crate) struct Staging {
    gpu: Arc<Gpu>,
    host: Pinned,
    device: Buffer<u8>,
    /// When the last copy was done.
    sent: Event,
    /// Number of the batch that is on the GPU or on its way there.
    batch: u64,
}

/// Lists on their way into one copy. Dropped without [`send`](Batch::send), nothing is sent.
pub(crate) struct Batch<'a> {
    staging: &'a mut Staging,
    used: usize,
}

/// The place of a list of `T`s in a batch.
pub(crate) struct Sent<T> {
    start: usize,
    length: usize,
    batch: u64,
    kind: PhantomData<fn() -> T>,
}

impl<T> Clone for Sent<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Sent<T> {}

/// The place in a batch of a list of indices below a bound.
#[derive(Clone, Copy)]
pub(crate) struct SentIndices {
    list: Sent<u32>,
    below: usize,
}

/// Indices on the GPU, all below a bound that was checked on the host.
#[derive(Clone, Copy)]
pub(crate) struct Indices<'a> {
    list: DeviceSlice<'a, u32>,
    below: usize,
}

impl<'a> Indices<'a> {
    pub(crate) fn list(self) -> DeviceSlice<'a, u32> {
        self.list
    }

    pub(crate) fn len(self) -> usize {
        self.list.len()
    }

    /// The bound.
    pub(crate) fn below(self) -> usize {
        self.below
    }

    /// `count` indices from number `first` on.
    pub(crate) fn part(self, first: usize, count: usize) -> Self {
        Self { list: self.list.slice(first..first + count), ..self }
    }
}

impl Staging {
    pub(crate) fn new(gpu: &Arc<Gpu>) -> Result<Self> {
        Ok(Self {
            gpu: gpu.clone(),
            host: Pinned::new(gpu, INITIAL_BYTES)?,
            device: Buffer::new(gpu, INITIAL_BYTES)?,
            sent: Event::new()?,
            batch: 0,
        })
    }

    /// Begins a new batch in place of the last one, once that has been copied.
    pub(crate) fn begin(&mut self) -> Result<Batch<'_>> {
        self.sent.wait(&self.gpu)?;
        self.batch += 1;
        Ok(Batch { staging: self, used: 0 })
    }

    /// A list of the last batch, on the GPU.
    pub(crate) fn list<T: Plain>(&self, sent: Sent<T>) -> DeviceSlice<'_, T> {
        assert_eq!(sent.batch, self.batch, "the list belongs to an earlier batch");
        self.device.slice(sent.start..sent.start + sent.length * size_of::<T>()).cast()
    }

    /// Indices of the last batch, on the GPU.
    pub(crate) fn indices(&self, sent: SentIndices) -> Indices<'_> {
        Indices { list: self.list(sent.list), below: sent.below }
    }
}

impl Batch<'_> {
    /// Adds a list.
    pub(crate) fn push<T: Plain>(&mut self, values: &[T]) -> Result<Sent<T>> {
        let (bytes, start) = (size_of_val(values), self.reserve(size_of_val(values))?);
        // SAFETY: there is room for that many bytes, and no copy is reading them: `begin` has waited for the last.
        unsafe {
            let target = self.staging.host.address.add(start);
            std::ptr::copy_nonoverlapping(values.as_ptr().cast::<u8>(), target, bytes);
        }
        Ok(Sent { start, length: values.len(), batch: self.staging.batch, kind: PhantomData })
    }

    /// Adds a list of indices, all of which must be below `below`.
    pub(crate) fn push_indices(&mut self, indices: &[u32], below: usize) -> Result<SentIndices> {
        assert!(indices.iter().all(|&index| (index as usize) < below), "an index is not below {below}");
        Ok(SentIndices { list: self.push(indices)?, below })
    }

    /// Adds bytes that `write` writes.
    pub(crate) fn push_with(&mut self, bytes: usize, write: impl FnOnce(&mut [MaybeUninit<u8>])) -> Result<Sent<u8>> {
        let start = self.reserve(bytes)?;
        // SAFETY: there is room for that many bytes, and no copy is reading them. The padding of lists that were here before
        // need not be initialized.
        write(unsafe { std::slice::from_raw_parts_mut(self.staging.host.address.add(start).cast(), bytes) });
        Ok(Sent { start, length: bytes, batch: self.staging.batch, kind: PhantomData })
    }

    /// Sends all lists, after all work launched before.
    pub(crate) fn send(self) -> Result<()> {
        let Staging { gpu, host, device, sent, .. } = self.staging;
        device.reserve(host.bytes)?;
        // SAFETY: both sides have room for `used` bytes. The host's are not written before `begin` has waited for the event
        // that is recorded below, nor freed before the stream is done.
        unsafe { sys::cuMemcpyHtoDAsync_v2(device.all().address(), host.address.cast(), self.used, gpu.stream()) }
            .result()?;
        sent.record(gpu)
    }

    /// Makes room for a list of so many bytes, and returns where it begins.
    fn reserve(&mut self, bytes: usize) -> Result<usize> {
        let start = self.used.next_multiple_of(ALIGNMENT);
        let host = &mut self.staging.host;
        if start + bytes > host.bytes {
            let larger = Pinned::new(&self.staging.gpu, (start + bytes).next_power_of_two())?;
            // SAFETY: both are longer than what was used so far, and no copy is reading it.
            unsafe { std::ptr::copy_nonoverlapping(host.address, larger.address, self.used) };
            *host = larger;
        }
        self.used = start + bytes;
        Ok(start)
    }
}

/// Fetches lists from the GPU. They can be looked at once the GPU has been waited for.
pub(crate) struct Landing {
    gpu: Arc<Gpu>,
    host: Pinned,
    used: usize,
    /// Number of the batch that is here or on its way.
    batch: u64,
}

/// A list of `T`s that was asked for.
pub(crate) struct Fetched<T> {
    start: usize,
    length: usize,
    batch: u64,
    /// Waits that had begun when it was asked for.
    waits: u64,
    kind: PhantomData<fn() -> T>,
}

impl Landing {
    pub(crate) fn new(gpu: &Arc<Gpu>) -> Result<Self> {
        Ok(Self { gpu: gpu.clone(), host: Pinned::new(gpu, INITIAL_BYTES)?, used: 0, batch: 0 })
    }

    /// Begins a new batch in place of the last one, with room for lists of so many bytes.
    pub(crate) fn begin(&mut self, bytes: &[usize]) -> Result<()> {
        self.used = 0;
        self.batch += 1;
        let bytes = bytes.iter().map(|bytes| bytes.next_multiple_of(ALIGNMENT)).sum::<usize>();
        if bytes > self.host.bytes {
            self.host = Pinned::new(&self.gpu, bytes.next_power_of_two())?;
        }
        Ok(())
    }

    /// Has a list copied to the host, after all work launched before.
    pub(crate) fn fetch<T: Plain>(&mut self, source: DeviceSlice<'_, T>) -> Result<Fetched<T>> {
        let (start, bytes) = (self.used.next_multiple_of(ALIGNMENT), source.len() * size_of::<T>());
        assert!(start + bytes <= self.host.bytes, "no room was made for this list");
        // SAFETY: both sides are that long. `get` gives nobody a look before a wait that begins after this.
        unsafe {
            let target = self.host.address.add(start).cast();
            sys::cuMemcpyDtoHAsync_v2(target, source.address(), bytes, self.gpu.stream()).result()?;
        }
        self.used = start + bytes;
        Ok(Fetched { start, length: source.len(), batch: self.batch, waits: self.gpu.waits(), kind: PhantomData })
    }

    /// A list that has arrived.
    pub(crate) fn get<T: Plain>(&self, fetched: &Fetched<T>) -> &[T] {
        assert_eq!(fetched.batch, self.batch, "the list belongs to an earlier batch");
        assert!(self.gpu.finished_waits() > fetched.waits, "the list may still be on its way");
        // SAFETY: the range was fetched into and is aligned for any plain value. A wait that began after the copy was
        // launched has finished, and another copy into it takes `&mut self`.
        unsafe { std::slice::from_raw_parts(self.host.address.add(fetched.start).cast::<T>(), fetched.length) }
    }
}

/// Page-locked host memory, zeroed at first. It is freed once all work launched before has finished.
struct Pinned {
    gpu: Arc<Gpu>,
    address: *mut u8,
    bytes: usize,
}

// SAFETY: it owns its memory.
unsafe impl Send for Pinned {}

impl Pinned {
    fn new(gpu: &Arc<Gpu>, bytes: usize) -> Result<Self> {
        // SAFETY: without a context bound to this thread the driver returns an error.
        let address = unsafe { result::malloc_host(bytes, 0)? }.cast::<u8>();
        // SAFETY: that many bytes were just allocated.
        unsafe { address.write_bytes(0, bytes) };
        Ok(Self { gpu: gpu.clone(), address, bytes })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // If the context cannot be bound or the stream has failed, the memory goes with the context.
        if self.gpu.bind().is_ok() && self.gpu.wait().is_ok() {
            // SAFETY: it owns the memory, and no copy from or to it is running any more.
            let _ = unsafe { result::free_host(self.address.cast()) };
        }
    }
}
