//! Memory on the GPU.
#![allow(unsafe_code, reason = "memory of the CUDA driver")]

use std::marker::PhantomData;
use std::sync::Arc;

use cudarc::driver::{result, sys};

use super::gpu::Gpu;
use crate::{Error, Result};

/// Numbers in the GPU's memory. They begin as zeros.
pub(crate) struct Buffer<T> {
    gpu: Arc<Gpu>,
    address: u64,
    length: usize,
    kind: PhantomData<T>,
}

/// Values that mean the same to the GPU as here: any bytes are one, and there is no padding in them that matters.
pub(crate) trait Plain: Copy + Default + Send + 'static {}

impl<T: Copy + Default + Send + 'static> Plain for T {}

impl<T: Plain> Buffer<T> {
    pub(crate) fn new(gpu: &Arc<Gpu>, length: usize) -> Result<Self> {
        let bytes = (length * size_of::<T>()).max(16);
        // SAFETY: the context is bound to this thread.
        let address = unsafe { result::malloc_sync(bytes) }.map_err(|error| {
            if error.0 == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY {
                let free = gpu.memory().map_or(0, |(free, _)| free);
                return Error::GpuFull { gpu: gpu.name().to_string(), needed: bytes, free };
            }
            error.into()
        })?;
        let buffer = Self { gpu: gpu.clone(), address, length, kind: PhantomData };
        // SAFETY: the memory is as long as said.
        unsafe { result::memset_d8_async(address, 0, bytes, gpu.stream())? };
        Ok(buffer)
    }

    /// Makes room for `length` values. Returns whether they moved; what was there is lost then.
    pub(crate) fn reserve(&mut self, length: usize) -> Result<bool> {
        if length <= self.length {
            return Ok(false);
        }
        self.free();
        *self = Self::new(&self.gpu.clone(), length)?;
        Ok(true)
    }

    /// Where the value with this index lies.
    pub(crate) fn at(&self, index: usize) -> u64 {
        debug_assert!(index <= self.length);
        self.address + (index * size_of::<T>()) as u64
    }

    /// Writes values from the host, after everything so far.
    pub(crate) fn write(&self, first: usize, values: &[T]) -> Result<()> {
        assert!(first + values.len() <= self.length);
        // SAFETY: the range is inside; the driver has read pageable memory when the call returns.
        unsafe { result::memcpy_htod_async(self.at(first), values, self.gpu.stream())? };
        self.gpu.wait()
    }

    /// Reads values back, and waits for them.
    pub(crate) fn read(&self, first: usize, values: &mut [T]) -> Result<()> {
        assert!(first + values.len() <= self.length);
        // SAFETY: the range is inside, and nobody touches `values` before the wait is over.
        unsafe { result::memcpy_dtoh_async(values, self.at(first), self.gpu.stream())? };
        self.gpu.wait()
    }
}

impl<T> Buffer<T> {
    fn free(&mut self) {
        // A failure here has been reported by the work that caused it.
        if self.address != 0 && self.gpu.bind().is_ok() && self.gpu.wait().is_ok() {
            // SAFETY: the memory is this buffer's, and no launch that uses it is under way.
            let _ = unsafe { result::free_sync(self.address) };
        }
        (self.address, self.length) = (0, 0);
    }
}

impl<T> Drop for Buffer<T> {
    fn drop(&mut self) {
        self.free();
    }
}
