// Rows on their way into a product of 8-bit floating point values (e4m3). Each has a scale of its own, by which its
// largest value becomes the largest that e4m3 has, so a row does not depend on others. Widths are multiples of 16.

#define LARGEST 448.0f  // value of e4m3

// Four values in e4m3, the first in the lowest byte.
DEVICE u32 pack_e4m3(float4 x) {
#if __CUDA_ARCH__ >= 890
    u16 low, high;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(low) : "f"(x.y), "f"(x.x));
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(high) : "f"(x.w), "f"(x.z));
    return (u32)high << 16 | low;
#else
    __trap();
    return 0;
#endif
}

// The largest over a block, for all of its threads.
DEVICE float block_max(float x) {
    __shared__ float parts[32];
    for (int offset = 16; offset > 0; offset /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, offset));
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
    __syncthreads();
    x = threadIdx.x % 32 < blockDim.x / 32 ? parts[threadIdx.x % 32] : 0.0f;
    for (int offset = 16; offset > 0; offset /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, offset));
    return x;
}

// Writes the block's row, of which `values(i)` gives four from index i on. It is asked twice for each: rows are long, and
// what it takes to compute them again is still in the cache.
template <typename Values> DEVICE void quantize_row(void* output, float* scales, u32 width, Values values) {
    float largest = 0.0f;
    for (u32 i = threadIdx.x * 4; i < width; i += blockDim.x * 4) {
        const float4 x = values(i);
        largest = fmaxf(fmaxf(largest, fmaxf(fabsf(x.x), fabsf(x.y))), fmaxf(fabsf(x.z), fabsf(x.w)));
    }
    // A row of zeros has a scale too.
    largest = fmaxf(block_max(largest), 1e-30f);
    if (threadIdx.x == 0) scales[blockIdx.x] = largest / LARGEST;
    const float factor = LARGEST / largest;
    u8* row = (u8*)output + (size_t)blockIdx.x * width;
    for (u32 i = threadIdx.x * 4; i < width; i += blockDim.x * 4) {
        const float4 x = values(i);
        *(u32*)(row + i) = pack_e4m3(make_float4(x.x * factor, x.y * factor, x.z * factor, x.w * factor));
    }
}

// output = row / sqrt(mean(row^2) + epsilon) * weight
KERNEL rms_norm_fp8(Norm n) {
    const float* row = row_of(n);
    const float scale = scale_of(n);
    quantize_row(n.output, n.scales, n.width, [=](u32 i) {
        const float4 x = widen4(row + i), w = widen4(n.weight + i);
        return make_float4(x.x * scale * w.x, x.y * scale * w.y, x.z * scale * w.z, x.w * scale * w.w);
    });
}

// output = silu(gate) * up
KERNEL silu_times_fp8(Gate g) {
    const element* gate = g.gate_up + (size_t)blockIdx.x * 2 * g.width;
    const element* up = gate + g.width;
    quantize_row(g.output, g.scales, g.width, [=](u32 i) {
        const float4 x = widen4(gate + i), y = widen4(up + i);
        return make_float4(silu(x.x) * y.x, silu(x.y) * y.y, silu(x.z) * y.z, silu(x.w) * y.w);
    });
}

// Rows as they are.
KERNEL quantize(Quantization q) {
    const element* row = q.source + (size_t)blockIdx.x * q.width;
    quantize_row(q.output, q.scales, q.width, [=](u32 i) { return widen4(row + i); });
}
