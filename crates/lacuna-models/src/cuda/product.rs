//! Matrix products: cublasLt's where numbers are bf16 or fp8, our own where they are f32 or the sizes are odd.
//!
//! An output of a product must not depend on the rows that are computed with it. So no algorithm may split the sum over k
//! (none gets the memory to do so), and of those that remain all add in the same order: for large products, where several are
//! tried for speed, only those are considered that give the same bits as the first.
#![allow(unsafe_code, reason = "calls into cublasLt")]

use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use cudarc::cublaslt::result::{self as lt, CublasError};
use cudarc::cublaslt::sys::{
    cublasComputeType_t, cublasLtHandle_t, cublasLtMatmul, cublasLtMatmulAlgo_t, cublasLtMatmulAlgoGetHeuristic,
    cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t, cublasLtMatmulHeuristicResult_t, cublasLtMatmulMatrixScale_t,
    cublasLtMatmulPreferenceAttributes_t, cublasLtMatrixLayout_t, cublasStatus_t, cudaDataType_t,
};

use super::buffer::Buffer;
use super::event::Event;
use super::gpu::Gpu;
use super::kernel::{Comparison, Kernels, Product};
use crate::{Error, Precision, Result};

/// How many algorithms cublasLt is asked for.
const CANDIDATES: usize = 8;
/// Operations from which on trying them pays.
const WORTH_TRYING: f64 = 1e10;
/// How often each is tried.
const TRIES: usize = 4;
/// The side of a tile of our own product.
const SIDE: usize = 64;

/// A product to compute: `output (+)= input · weightsᵀ`, all row-major.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Factors {
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    /// `[m][k]`.
    pub(crate) input: u64,
    /// `[n][k]`.
    pub(crate) weights: u64,
    /// `[m][n]`.
    pub(crate) output: u64,
    /// The units of both, if they are in fp8.
    pub(crate) units: Option<Units>,
    /// Whether the output is f32; else it is of elements.
    pub(crate) wide: bool,
    /// Whether to add to what is there.
    pub(crate) add: bool,
}

/// Where the units of rows in fp8 lie.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Units {
    pub(crate) input: u64,
    pub(crate) weights: u64,
}

/// The products of a model, each shape with its algorithm.
pub(crate) struct Products {
    gpu: Arc<Gpu>,
    /// None in f32: cublasLt's own f32 products may split sums.
    handle: Option<Handle>,
    plans: HashMap<Form, Option<Plan>>,
}

/// What an algorithm is chosen for.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Form {
    m: usize,
    n: usize,
    k: usize,
    fp8: bool,
    wide: bool,
}

struct Handle(cublasLtHandle_t);

// SAFETY: cublasLt's handles may be used from any thread.
unsafe impl Send for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: it was created and is not used any more.
        let _ = unsafe { lt::destroy_handle(self.0) };
    }
}

impl Products {
    pub(crate) fn new(gpu: &Arc<Gpu>, precision: Precision) -> Result<Self> {
        let handle = match precision {
            Precision::F32 => None,
            _ => Some(Handle(lt::create_handle()?)),
        };
        Ok(Self { gpu: gpu.clone(), handle, plans: HashMap::new() })
    }

    /// Computes a product.
    pub(crate) fn multiply(&mut self, kernels: &Kernels, factors: Factors) -> Result<()> {
        let Some(Handle(handle)) = self.handle else { return multiply_ourselves(&self.gpu, kernels, factors) };
        let Factors { m, n, k, units, wide, .. } = factors;
        let form = Form { m, n, k, fp8: units.is_some(), wide };
        if !self.plans.contains_key(&form) {
            let plan = Plan::new(&self.gpu, kernels, handle, factors)?;
            self.plans.insert(form, plan);
        }
        match &self.plans[&form] {
            Some(plan) => plan.run(&self.gpu, handle, &plan.algorithm, factors),
            None if form.fp8 => Err(Error::Gpu(format!("cublasLt has no fp8 product of {m} x {n} x {k}"))),
            None => multiply_ourselves(&self.gpu, kernels, factors),
        }
    }
}

fn multiply_ourselves(gpu: &Gpu, kernels: &Kernels, factors: Factors) -> Result<()> {
    let Factors { m, n, k, input, weights, output, wide, add, .. } = factors;
    let arguments = Product {
        input,
        weights,
        output,
        m: m as u32,
        n: n as u32,
        k: k as u32,
        add: u32::from(add),
        wide: u32::from(wide),
    };
    gpu.launch(&kernels.product, [n.div_ceil(SIDE), m.div_ceil(SIDE)], 256, 0, &arguments)
}

/// How cublasLt computes products of one shape. It speaks of columns where we speak of rows, so it sees `outputᵀ = weights ·
/// inputᵀ`.
struct Plan {
    operation: cublasLtMatmulDesc_t,
    weights: cublasLtMatrixLayout_t,
    input: cublasLtMatrixLayout_t,
    output: cublasLtMatrixLayout_t,
    algorithm: cublasLtMatmulAlgo_t,
}

// SAFETY: descriptors are plain memory with one owner.
unsafe impl Send for Plan {}

impl Plan {
    /// The plan for a shape, or none if cublasLt has no algorithm for it.
    fn new(gpu: &Arc<Gpu>, kernels: &Kernels, handle: cublasLtHandle_t, factors: Factors) -> Result<Option<Self>> {
        let Factors { m, n, k, units, wide, .. } = factors;
        let (m64, n64, k64) = (m as u64, n as u64, k as u64);
        let narrow = if units.is_some() { cudaDataType_t::CUDA_R_8F_E4M3 } else { cudaDataType_t::CUDA_R_16BF };
        let kind = if wide { cudaDataType_t::CUDA_R_32F } else { cudaDataType_t::CUDA_R_16BF };
        let mut plan = Self {
            operation: lt::create_matmul_desc(cublasComputeType_t::CUBLAS_COMPUTE_32F, cudaDataType_t::CUDA_R_32F)?,
            weights: lt::create_matrix_layout(narrow, k64, n64, k as i64)?,
            input: lt::create_matrix_layout(narrow, k64, m64, k as i64)?,
            output: lt::create_matrix_layout(kind, n64, m64, n as i64)?,
            algorithm: cublasLtMatmulAlgo_t { data: [0; 8] },
        };
        plan.set(cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_TRANSA, 1u32)?;
        if let Some(units) = units {
            // Fast accumulation stays off: sums are in f32.
            let each_row = cublasLtMatmulMatrixScale_t::CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
            plan.set(cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_A_SCALE_MODE, each_row)?;
            plan.set(cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_B_SCALE_MODE, each_row)?;
            plan.set_units(units)?;
        }
        let candidates = plan.candidates(handle)?;
        let Some(first) = candidates.first() else { return Ok(None) };
        plan.algorithm = *first;
        if candidates.len() > 1 && 2.0 * (m * n) as f64 * k as f64 >= WORTH_TRYING {
            plan.algorithm = plan.fastest(gpu, kernels, handle, factors, &candidates)?;
        }
        Ok(Some(plan))
    }

    /// Sets an attribute of the operation.
    fn set<T>(&self, attribute: cublasLtMatmulDescAttributes_t, value: T) -> Result<()> {
        // SAFETY: the descriptor exists, and every attribute above and below is given as the type that it has.
        unsafe {
            lt::set_matmul_desc_attribute(self.operation, attribute, ptr::from_ref(&value).cast(), size_of::<T>())?;
        }
        Ok(())
    }

    fn set_units(&self, units: Units) -> Result<()> {
        self.set(cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, units.weights)?;
        self.set(cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, units.input)
    }

    /// The algorithms that cublasLt proposes for it, the best first.
    fn candidates(&self, handle: cublasLtHandle_t) -> Result<Vec<cublasLtMatmulAlgo_t>> {
        let preference = lt::create_matmul_pref()?;
        // SAFETY: a result is plain data, for which zero is a value.
        let mut found: [cublasLtMatmulHeuristicResult_t; CANDIDATES] = unsafe { std::mem::zeroed() };
        let mut count = 0;
        let (no_memory, no_reduction) = (0usize, 0u32);
        // SAFETY: all descriptors exist, attributes have their types, and there is room for the results.
        let status = unsafe {
            lt::set_matmul_pref_attribute(
                preference,
                cublasLtMatmulPreferenceAttributes_t::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                ptr::from_ref(&no_memory).cast(),
                size_of::<usize>(),
            )?;
            lt::set_matmul_pref_attribute(
                preference,
                cublasLtMatmulPreferenceAttributes_t::CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                ptr::from_ref(&no_reduction).cast(),
                size_of::<u32>(),
            )?;
            let status = cublasLtMatmulAlgoGetHeuristic(
                handle,
                self.operation,
                self.weights,
                self.input,
                self.output,
                self.output,
                preference,
                CANDIDATES as i32,
                found.as_mut_ptr(),
                &mut count,
            );
            lt::destroy_matmul_pref(preference)?;
            status
        };
        if status == cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED {
            return Ok(Vec::new());
        }
        status.result()?;
        let usable = |result: &&cublasLtMatmulHeuristicResult_t| result.state == cublasStatus_t::CUBLAS_STATUS_SUCCESS;
        Ok(found[..count as usize].iter().filter(usable).map(|result| result.algo).collect())
    }

    /// The fastest of the candidates that give the same bits as the first.
    fn fastest(
        &self,
        gpu: &Arc<Gpu>,
        kernels: &Kernels,
        handle: cublasLtHandle_t,
        factors: Factors,
        candidates: &[cublasLtMatmulAlgo_t],
    ) -> Result<cublasLtMatmulAlgo_t> {
        let bytes = factors.m * factors.n * if factors.wide { 4 } else { 2 };
        let words = bytes / 4;
        let (Ok(expected), Ok(found)) = (Buffer::<u8>::new(gpu, bytes), Buffer::<u8>::new(gpu, bytes)) else {
            // No room to try anything.
            return Ok(candidates[0]);
        };
        let different = Buffer::<u32>::new(gpu, 1)?;
        let mut best = (f32::INFINITY, candidates[0]);
        let (begin, end) = (Event::new()?, Event::new()?);
        for (index, algorithm) in candidates.iter().enumerate() {
            let output = if index == 0 { expected.at(0) } else { found.at(0) };
            let trial = Factors { output, add: false, ..factors };
            self.run(gpu, handle, algorithm, trial)?;
            different.write(0, &[0])?;
            let (one, other, different_at) = (expected.at(0), output, different.at(0));
            let comparison = Comparison { one, other, different: different_at, words: words as u64 };
            gpu.launch(&kernels.compare, [1024, 1], 256, 0, &comparison)?;
            let mut count = [0];
            different.read(0, &mut count)?;
            if count != [0] {
                continue;
            }
            begin.record(gpu)?;
            for _ in 0..TRIES {
                self.run(gpu, handle, algorithm, trial)?;
            }
            end.record(gpu)?;
            gpu.wait()?;
            let took = begin.until(&end)?;
            if took < best.0 {
                best = (took, *algorithm);
            }
        }
        Ok(best.1)
    }

    fn run(
        &self,
        gpu: &Gpu,
        handle: cublasLtHandle_t,
        algorithm: &cublasLtMatmulAlgo_t,
        factors: Factors,
    ) -> Result<()> {
        if let Some(units) = factors.units {
            self.set_units(units)?;
        }
        let (alpha, beta) = (1.0f32, if factors.add { 1.0f32 } else { 0.0 });
        // SAFETY: the matrices have the sizes that the layouts say, and the algorithm needs no memory of its own.
        unsafe {
            cublasLtMatmul(
                handle,
                self.operation,
                ptr::from_ref(&alpha).cast(),
                factors.weights as *const c_void,
                self.weights,
                factors.input as *const c_void,
                self.input,
                ptr::from_ref(&beta).cast(),
                factors.output as *const c_void,
                self.output,
                factors.output as *mut c_void,
                self.output,
                algorithm,
                ptr::null_mut(),
                0,
                gpu.stream().cast(),
            )
            .result()?;
        }
        Ok(())
    }
}

impl Drop for Plan {
    fn drop(&mut self) {
        // SAFETY: they were created with it and are not used any more.
        unsafe {
            let _ = lt::destroy_matmul_desc(self.operation);
            for layout in [self.weights, self.input, self.output] {
                let _ = lt::destroy_matrix_layout(layout);
            }
        }
    }
}

impl From<CublasError> for Error {
    fn from(error: CublasError) -> Self {
        Self::Gpu(format!("cublasLt: {:?}", error.0))
    }
}
