// Weights on their way into the GPU's memory.

struct Conversion {
    const void* source;
    void* target;       // f32 if `wide`, else elements
    u64* wrong;         // the lowest index of a number that is not finite
    u64 first;          // which element of the tensor the source begins with
    u64 length;
    u32 numbers;        // of the source: 0 for f32, 1 for f16, 2 for bf16
    u32 wide;
};

DEVICE float half_to_float(u16 bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

KERNEL convert(Conversion c) {
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < c.length; i += (u64)gridDim.x * blockDim.x) {
        float value = c.numbers == 0   ? ((const float*)c.source)[i]
                      : c.numbers == 1 ? half_to_float(((const u16*)c.source)[i])
                                       : widen(((const bf16*)c.source)[i]);
        if (!(fabsf(value) < INFINITE)) atomicMin(c.wrong, c.first + i);
        if (c.wide)
            ((float*)c.target)[i] = value;
        else
            narrow(value, (element*)c.target + i);
    }
}

struct Noise {
    void* target;
    u64 length;
    u32 seed;
    float mean, step;
    u32 wide;
};

// The numbers of checkpoint/noise.rs.
KERNEL noise(Noise n) {
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < n.length; i += (u64)gridDim.x * blockDim.x) {
        u32 x = ((u32)i + n.seed) * 0x9E3779B9u;
        x = (x ^ (x >> 15)) * 0x85EBCA6Bu;
        x ^= x >> 13;
        float value = __fadd_rn(n.mean, __fmul_rn((float)(int)x, n.step));
        if (n.wide)
            ((float*)n.target)[i] = value;
        else
            narrow(value, (element*)n.target + i);
    }
}
