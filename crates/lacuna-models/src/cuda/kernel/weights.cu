// Weights on their way into the GPU's memory. The structs are in weights.rs.

DEVICE float half_to_float(u16 bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

KERNEL convert(Conversion c) {
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < c.length; i += (u64)gridDim.x * blockDim.x) {
        float value = c.source_dtype == 0   ? ((const float*)c.source)[i]
                      : c.source_dtype == 1 ? half_to_float(((const u16*)c.source)[i])
                                       : widen(((const bf16*)c.source)[i]);
        if (!(fabsf(value) < INFINITE)) atomicMin(c.not_finite, c.first + i);
        if (c.target_is_f32)
            ((float*)c.target)[i] = value;
        else
            narrow(value, (element*)c.target + i);
    }
}

// The values of checkpoint/noise.rs.
KERNEL noise(Noise n) {
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < n.length; i += (u64)gridDim.x * blockDim.x) {
        u32 x = ((u32)i + n.seed) * 0x9E3779B9u;
        x = (x ^ (x >> 15)) * 0x85EBCA6Bu;
        x ^= x >> 13;
        float value = __fadd_rn(n.mean, __fmul_rn((float)(int)x, n.step));
        if (n.target_is_f32)
            ((float*)n.target)[i] = value;
        else
            narrow(value, (element*)n.target + i);
    }
}
