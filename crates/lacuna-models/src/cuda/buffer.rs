//! Memory on the GPU: [`Buffer`] owns it, [`DeviceSlice`] borrows a part of it.
#![allow(unsafe_code, reason = "memory of the CUDA driver")]

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::{result, sys};

use super::gpu::Gpu;
use crate::{Error, Result};

/// A value that has the same representation on the GPU and on the host.
///
/// # Safety
/// Every bit pattern is a valid value, and the type holds no reference to host memory.
pub(crate) unsafe trait Plain: Copy + Send + Sync + 'static {}

macro_rules! plain {
    ($($kind:ty),*) => {
        // SAFETY: a number is valid whatever its bits.
        $(unsafe impl Plain for $kind {})*
    };
}
plain!(u8, u32, u64, f32, f64);

/// An allocation of `T`s in the GPU's memory, zeroed at first. It is freed once all work launched before has finished.
pub(crate) struct Buffer<T> {
    gpu: Arc<Gpu>,
    address: u64,
    length: usize,
    kind: PhantomData<T>,
}

/// A borrowed part of a [`Buffer`]. Kernels may write through it: all work on the GPU happens in order on one stream.
pub(crate) struct DeviceSlice<'a, T> {
    address: u64,
    length: usize,
    buffer: PhantomData<&'a Buffer<T>>,
}

impl<T> Clone for DeviceSlice<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for DeviceSlice<'_, T> {}

impl<'a, T> DeviceSlice<'a, T> {
    /// Address of the first value.
    pub(crate) fn address(self) -> u64 {
        self.address
    }

    pub(crate) fn len(self) -> usize {
        self.length
    }

    /// The values in `range`.
    pub(crate) fn slice(self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.length, "{range:?} is not within {}", self.length);
        let address = self.address + (range.start * size_of::<T>()) as u64;
        Self { address, length: range.len(), ..self }
    }

    /// The values from index `first` on.
    pub(crate) fn from(self, first: usize) -> Self {
        self.slice(first..self.length)
    }

    /// Copies as many values here, after all work launched before.
    pub(crate) fn copy_from(self, gpu: &Gpu, source: DeviceSlice<'_, T>) -> Result<()> {
        assert_eq!(self.length, source.length, "a copy is as long as what is copied");
        let bytes = self.length * size_of::<T>();
        // SAFETY: both are that long, and freed only after all work launched before.
        unsafe { result::memcpy_dtod_async(self.address, source.address, bytes, gpu.stream())? };
        Ok(())
    }
}

impl<'a> DeviceSlice<'a, u8> {
    /// These bytes as values of another type.
    pub(crate) fn cast<T: Plain>(self) -> DeviceSlice<'a, T> {
        let aligned = self.address.is_multiple_of(align_of::<T>() as u64);
        assert!(aligned && self.length.is_multiple_of(size_of::<T>()), "these bytes are no values of that type");
        DeviceSlice { address: self.address, length: self.length / size_of::<T>(), buffer: PhantomData }
    }
}

impl<T: Plain> Buffer<T> {
    pub(crate) fn new(gpu: &Arc<Gpu>, length: usize) -> Result<Self> {
        let bytes = (length * size_of::<T>()).max(16);
        // SAFETY: without a context bound to this thread the driver returns an error.
        let address = unsafe { result::malloc_sync(bytes) }.map_err(|error| {
            if error.0 == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY {
                let free = gpu.memory().map_or(0, |(free, _)| free);
                return Error::GpuFull { gpu: gpu.name().to_string(), needed: bytes, free };
            }
            error.into()
        })?;
        let buffer = Self { gpu: gpu.clone(), address, length, kind: PhantomData };
        // SAFETY: that many bytes were just allocated.
        unsafe { result::memset_d8_async(address, 0, bytes, gpu.stream())? };
        Ok(buffer)
    }

    /// A buffer with these values.
    pub(crate) fn of(gpu: &Arc<Gpu>, values: &[T]) -> Result<Self> {
        let buffer = Self::new(gpu, values.len())?;
        buffer.write(0, values)?;
        Ok(buffer)
    }

    /// Makes room for `length` values. If it has to move, all values are lost.
    pub(crate) fn reserve(&mut self, length: usize) -> Result<()> {
        if length > self.length {
            self.free();
            *self = Self::new(&self.gpu.clone(), length)?;
        }
        Ok(())
    }

    /// Copies values from the host, after all work launched before, and waits for it.
    pub(crate) fn write(&self, first: usize, values: &[T]) -> Result<()> {
        let target = self.slice(first..first + values.len());
        // SAFETY: the target is as long as `values`, which stay borrowed until the wait is over.
        unsafe { result::memcpy_htod_async(target.address, values, self.gpu.stream())? };
        self.gpu.wait()
    }

    /// Copies values to the host, after all work launched before, and waits for them.
    pub(crate) fn read(&self, first: usize, values: &mut [T]) -> Result<()> {
        let source = self.slice(first..first + values.len());
        // SAFETY: the source is as long as `values`, which stay borrowed until the wait is over; any bits are values.
        unsafe { result::memcpy_dtoh_async(values, source.address, self.gpu.stream())? };
        self.gpu.wait()
    }
}

impl<T> Buffer<T> {
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// All values.
    pub(crate) fn all(&self) -> DeviceSlice<'_, T> {
        DeviceSlice { address: self.address, length: self.length, buffer: PhantomData }
    }

    /// The values in `range`.
    pub(crate) fn slice(&self, range: Range<usize>) -> DeviceSlice<'_, T> {
        self.all().slice(range)
    }

    fn free(&mut self) {
        // If the context cannot be bound or the stream has failed, the memory goes with the context.
        if self.address != 0 && self.gpu.bind().is_ok() && self.gpu.wait().is_ok() {
            // SAFETY: this buffer owns the memory, and no launch that uses it is running any more.
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
