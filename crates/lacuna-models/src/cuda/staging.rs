//! What travels between the host and the GPU.
#![allow(unsafe_code, reason = "memory that the GPU copies from")]

use std::sync::Arc;

use cudarc::driver::result;

use super::buffer::{Buffer, Plain};
use super::event::Event;
use super::gpu::Gpu;
use crate::Result;

/// Gathers slices and sends them in one copy.
pub(crate) struct Staging {
    gpu: Arc<Gpu>,
    host: Pinned,
    used: usize,
    device: Buffer<u8>,
    /// When what was sent last had arrived.
    sent: Event,
}

/// Where a slice lies, counted from the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Offset(usize);

const ALIGNMENT: usize = 16;

impl Staging {
    pub(crate) fn new(gpu: &Arc<Gpu>) -> Result<Self> {
        let bytes = 1 << 16;
        Ok(Self {
            gpu: gpu.clone(),
            host: Pinned::new(bytes)?,
            used: 0,
            device: Buffer::new(gpu, bytes)?,
            sent: Event::new()?,
        })
    }

    /// Begins anew, with room for `bytes`. Returns whether the place on the GPU moved.
    pub(crate) fn begin(&mut self, bytes: usize) -> Result<bool> {
        self.sent.wait(&self.gpu)?;
        self.used = 0;
        if bytes <= self.host.bytes {
            return Ok(false);
        }
        let bytes = bytes.next_power_of_two();
        // In this order: the host's side tells how much there is room for.
        let moved = self.device.reserve(bytes)?;
        self.host = Pinned::new(bytes)?;
        Ok(moved)
    }

    /// Adds a slice.
    pub(crate) fn push<T: Plain>(&mut self, values: &[T]) -> Offset {
        let bytes = size_of_val(values);
        let start = self.used.next_multiple_of(ALIGNMENT);
        assert!(start + bytes <= self.host.bytes, "there is room for what was announced");
        // SAFETY: the range is inside, aligned for any plain value, and not being read: `begin` waited.
        unsafe { std::ptr::copy_nonoverlapping(values.as_ptr().cast::<u8>(), self.host.address.add(start), bytes) };
        self.used = start + bytes;
        Offset(start)
    }

    /// Sends all of these, and tells where each lies on the GPU.
    pub(crate) fn send_all<const N: usize>(&mut self, lists: [&dyn Staged; N]) -> Result<[u64; N]> {
        self.begin(Self::room(&lists.map(|list| list.bytes())))?;
        let offsets = lists.map(|list| list.push_to(self));
        self.send()?;
        Ok(offsets.map(|offset| self.at(offset)))
    }

    /// Sends everything.
    pub(crate) fn send(&mut self) -> Result<()> {
        // SAFETY: the memory is initialized up to `used`, except alignment gaps, which nobody reads, and is not written before
        // the next `begin` has waited.
        unsafe {
            let bytes = std::slice::from_raw_parts(self.host.address, self.used);
            result::memcpy_htod_async(self.device.at(0), bytes, self.gpu.stream())?;
        }
        self.sent.record(&self.gpu)
    }

    /// Where a slice lies on the GPU.
    pub(crate) fn at(&self, offset: Offset) -> u64 {
        self.device.at(offset.0)
    }

    /// Bytes that slices of these lengths take at most.
    pub(crate) fn room(bytes: &[usize]) -> usize {
        bytes.iter().map(|bytes| bytes.next_multiple_of(ALIGNMENT)).sum()
    }
}

/// A list of any kind that can be sent.
pub(crate) trait Staged {
    fn bytes(&self) -> usize;
    fn push_to(&self, staging: &mut Staging) -> Offset;
}

impl<T: Plain> Staged for Vec<T> {
    fn bytes(&self) -> usize {
        size_of_val(&self[..])
    }

    fn push_to(&self, staging: &mut Staging) -> Offset {
        staging.push(self)
    }
}

/// Where slices come back to. Nobody waits for each: they are there once everything was waited for.
pub(crate) struct Landing {
    gpu: Arc<Gpu>,
    host: Pinned,
    used: usize,
}

impl Landing {
    pub(crate) fn new(gpu: &Arc<Gpu>) -> Result<Self> {
        Ok(Self { gpu: gpu.clone(), host: Pinned::new(1 << 16)?, used: 0 })
    }

    /// Begins anew, with room for `bytes`.
    pub(crate) fn begin(&mut self, bytes: usize) -> Result<()> {
        self.used = 0;
        if bytes > self.host.bytes {
            // What was fetched last may still be under way, if nobody wanted it in the end.
            self.gpu.wait()?;
            self.host = Pinned::new(bytes.next_power_of_two())?;
        }
        Ok(())
    }

    /// Has `count` values that lie at `source` brought here, after everything so far.
    pub(crate) fn fetch<T: Plain>(&mut self, source: u64, count: usize) -> Result<Offset> {
        let (start, bytes) = (self.used.next_multiple_of(ALIGNMENT), count * size_of::<T>());
        let target = &mut self.host.as_mut_slice()[start..start + bytes];
        // SAFETY: the callers' buffers are as long as what they fetch, and nobody reads the target before it was waited for.
        unsafe { result::memcpy_dtoh_async(target, source, self.gpu.stream())? };
        self.used = start + bytes;
        Ok(Offset(start))
    }

    /// What was brought.
    pub(crate) fn get<T: Plain>(&self, offset: Offset, count: usize) -> &[T] {
        assert!(offset.0 + count * size_of::<T>() <= self.used, "it was fetched");
        // SAFETY: the range is inside, initialized, and aligned for any plain value.
        unsafe { std::slice::from_raw_parts(self.host.address.add(offset.0).cast::<T>(), count) }
    }
}

/// Host memory that the GPU copies from and to by itself.
pub(crate) struct Pinned {
    address: *mut u8,
    bytes: usize,
}

// SAFETY: it is plain memory with one owner.
unsafe impl Send for Pinned {}

impl Pinned {
    pub(crate) fn new(bytes: usize) -> Result<Self> {
        // SAFETY: the context is bound to this thread.
        let address = unsafe { result::malloc_host(bytes, 0)? }.cast::<u8>();
        // SAFETY: it is as long as said.
        unsafe { address.write_bytes(0, bytes) };
        Ok(Self { address, bytes })
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: it is as long as said, was initialized, and has one owner.
        unsafe { std::slice::from_raw_parts_mut(self.address, self.bytes) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: it is this one's, and every copy from it was waited for.
        let _ = unsafe { result::free_host(self.address.cast()) };
    }
}

/// Sends bytes of pinned memory, which must not change before they were waited for.
pub(crate) fn copy_to(gpu: &Gpu, target: u64, bytes: &[u8]) -> Result<()> {
    // SAFETY: the callers' buffers are as long as what they send.
    unsafe { result::memcpy_htod_async(target, bytes, gpu.stream())? };
    Ok(())
}
