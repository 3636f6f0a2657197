//! Matrix products: cublasLt's in bf16 and fp8, our own in f32, with int4 weights and where the sizes are odd.
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
use super::kernel::{Factors, Kernels, Output, SharedSums};
use super::matrix::{ElementSlice, Operand};
use crate::{Error, Precision, Result};

/// Algorithms that cublasLt is asked for.
const CANDIDATES: usize = 8;
/// Operations from which on trying them pays.
const WORTH_TRYING: f64 = 1e10;
/// Timed runs of each.
const TRIES: usize = 4;
/// The products of a model, each shape with its algorithm.
pub(crate) struct Products {
    gpu: Arc<Gpu>,
    /// None in f32: cublasLt's own f32 products may split sums.
    handle: Option<Handle>,
    plans: HashMap<Form, Option<Plan>>,
    /// For products with int4 weights.
    pub(crate) sums: SharedSums,
}

/// Shape and formats that an algorithm is chosen for.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Form {
    m: usize,
    n: usize,
    k: usize,
    fp8: bool,
    f32_output: bool,
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
        Ok(Self { gpu: gpu.clone(), handle, plans: HashMap::new(), sums: SharedSums::new(gpu)? })
    }

    /// Computes a product.
    pub(crate) fn multiply(&mut self, kernels: &Kernels, factors: Factors<'_>) -> Result<()> {
        if let Operand::Int4(_) = factors.weights {
            return kernels.product_int4(factors, &mut self.sums);
        }
        let Some(handle) = &self.handle else { return kernels.product(factors) };
        let form = Form::of(&factors);
        if !self.plans.contains_key(&form) {
            let plan = Plan::new(&self.gpu, kernels, handle, factors)?;
            self.plans.insert(form, plan);
        }
        match &self.plans[&form] {
            Some(plan) => plan.run(&self.gpu, handle, &plan.algorithm, factors),
            None if form.fp8 => {
                let Form { m, n, k, .. } = form;
                Err(Error::Gpu(format!("cublasLt has no fp8 product of {m} x {n} x {k}")))
            }
            None => kernels.product(factors),
        }
    }
}

impl Form {
    fn of(factors: &Factors<'_>) -> Self {
        let &Factors { m, n, k, input, weights, output } = factors;
        let fp8 = match (input, weights) {
            (Operand::Elements(_), Operand::Elements(_)) => false,
            (Operand::Fp8(_), Operand::Fp8(_)) => true,
            _ => unreachable!("both factors of a product are of one format"),
        };
        Self { m, n, k, fp8, f32_output: output.is_f32() }
    }
}

/// A plan of cublasLt for products of one shape. It speaks of columns where we speak of rows, so it sees `outputᵀ = weights ·
/// inputᵀ`.
struct Plan {
    form: Form,
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
    fn new(gpu: &Arc<Gpu>, kernels: &Kernels, handle: &Handle, factors: Factors<'_>) -> Result<Option<Self>> {
        let form = Form::of(&factors);
        let Form { m, n, k, fp8, f32_output } = form;
        let (m64, n64, k64) = (m as u64, n as u64, k as u64);
        let narrow = if fp8 { cudaDataType_t::CUDA_R_8F_E4M3 } else { cudaDataType_t::CUDA_R_16BF };
        let kind = if f32_output { cudaDataType_t::CUDA_R_32F } else { cudaDataType_t::CUDA_R_16BF };
        let mut plan = Self {
            form,
            operation: lt::create_matmul_desc(cublasComputeType_t::CUBLAS_COMPUTE_32F, cudaDataType_t::CUDA_R_32F)?,
            weights: lt::create_matrix_layout(narrow, k64, n64, k as i64)?,
            input: lt::create_matrix_layout(narrow, k64, m64, k as i64)?,
            output: lt::create_matrix_layout(kind, n64, m64, n as i64)?,
            algorithm: cublasLtMatmulAlgo_t { data: [0; 8] },
        };
        plan.set(cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_TRANSA, 1u32)?;
        if fp8 {
            // Fast accumulation stays off: sums are in f32.
            let each_row = cublasLtMatmulMatrixScale_t::CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
            plan.set(cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_A_SCALE_MODE, each_row)?;
            plan.set(cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_B_SCALE_MODE, each_row)?;
            plan.set_scales(&factors)?;
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
        // SAFETY: the descriptor exists, and the driver refuses a value of another size than the attribute has.
        unsafe {
            lt::set_matmul_desc_attribute(self.operation, attribute, ptr::from_ref(&value).cast(), size_of::<T>())?;
        }
        Ok(())
    }

    /// Names the scales of both factors, if they are in fp8.
    fn set_scales(&self, factors: &Factors<'_>) -> Result<()> {
        if let (Operand::Fp8(input), Operand::Fp8(weights)) = (factors.input, factors.weights) {
            let [for_weights, for_input] = [
                cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_A_SCALE_POINTER,
                cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_B_SCALE_POINTER,
            ];
            self.set(for_weights, weights.scales.address())?;
            self.set(for_input, input.scales.address())?;
        }
        Ok(())
    }

    /// The algorithms that cublasLt proposes for it, the best first.
    fn candidates(&self, handle: &Handle) -> Result<Vec<cublasLtMatmulAlgo_t>> {
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
                handle.0,
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
        handle: &Handle,
        factors: Factors<'_>,
        candidates: &[cublasLtMatmulAlgo_t],
    ) -> Result<cublasLtMatmulAlgo_t> {
        let length = factors.m * factors.n;
        // The two trials write here, in the output's own dtype.
        let room = || -> Result<Buffer<u8>> { Buffer::new(gpu, length * if factors.output.is_f32() { 4 } else { 2 }) };
        let (Ok(expected), Ok(found)) = (room(), room()) else {
            // No room to try anything.
            return Ok(candidates[0]);
        };
        let words = expected.len() / 4 * 4;
        let different = Buffer::<u32>::new(gpu, 1)?;
        let mut best = (f32::INFINITY, candidates[0]);
        let (begin, end) = (Event::new()?, Event::new()?);
        for (index, algorithm) in candidates.iter().enumerate() {
            let target = if index == 0 { &expected } else { &found };
            let output = match factors.output {
                Output::F32 { .. } => Output::F32 { values: target.all().cast(), add: false },
                Output::Elements(_) => Output::Elements(ElementSlice::new(target.all(), true)),
            };
            let trial = Factors { output, ..factors };
            self.run(gpu, handle, algorithm, trial)?;
            different.write(0, &[0])?;
            let [one, other] = [&expected, target].map(|buffer| buffer.slice(0..words).cast());
            kernels.compare(one, other, different.all())?;
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

    fn run(&self, gpu: &Gpu, handle: &Handle, algorithm: &cublasLtMatmulAlgo_t, factors: Factors<'_>) -> Result<()> {
        assert!(Form::of(&factors) == self.form && factors.fit(), "these matrices are not what the plan is for");
        self.set_scales(&factors)?;
        let (alpha, beta) = (1.0f32, if factors.output.adds() { 1.0f32 } else { 0.0 });
        let address = |operand| match operand {
            Operand::Elements(elements) => elements.address(),
            Operand::Fp8(rows) => rows.values.address(),
            Operand::Int4(_) => unreachable!("products with int4 weights are our own"),
        };
        let (input, weights, output) = (address(factors.input), address(factors.weights), factors.output.address());
        // SAFETY: the layouts are those of the form, for which the matrices are large enough, and the algorithm needs no
        // memory of its own. Buffers are freed only after all work launched before.
        unsafe {
            cublasLtMatmul(
                handle.0,
                self.operation,
                ptr::from_ref(&alpha).cast(),
                weights as *const c_void,
                self.weights,
                input as *const c_void,
                self.input,
                ptr::from_ref(&beta).cast(),
                output as *const c_void,
                self.output,
                output as *mut c_void,
                self.output,
                algorithm,
                ptr::null_mut(),
                0,
                gpu.stream().cast(),
            )
            .result()?;
        }
        let Form { m, n, k, .. } = self.form;
        gpu.profile.note(gpu, || format!("cublasLt {m} x {n} x {k}"))
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
