// Shared by all kernels. nvrtc brings no headers, so everything is spelled out.
//
// Set by the program that compiles this: BF16 (1 if elements are bf16, 0 if they are f32) and HEAD_SIZE.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define DEVICE __device__ __forceinline__
#define KERNEL extern "C" __global__ void
#define INFINITE __int_as_float(0x7f800000)

// The offset of a field of a struct.
#ifdef __CUDACC_RTC__
#define OFFSET_OF(type, field) ((size_t)__INTADDR__(&((type*)0)->field))
#else
#define OFFSET_OF(type, field) __builtin_offsetof(type, field)
#endif

struct bf16 {
    u16 bits;
};

DEVICE float widen(float x) { return x; }
DEVICE float widen(bf16 x) { return __uint_as_float((u32)x.bits << 16); }

// Lets the next kernel begin, and waits until all that was launched before is done. What comes before this in a kernel may read weights alone,
// and runs while the kernel before ends; kernels that are launched early begin with it.
DEVICE void follow() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Two values rounded to bf16, the first in the low half.
DEVICE u32 pack(float low, float high) {
    u32 packed;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
}

DEVICE void narrow(float x, float* y) { *y = x; }
DEVICE void narrow(float x, bf16* y) { y->bits = (u16)pack(x, 0.0f); }

#if BF16
typedef bf16 element;
#else
typedef float element;
#endif

// Four neighbours at once.
DEVICE float4 widen4(const float* x) { return *(const float4*)x; }
DEVICE float4 widen4(const bf16* x) {
    uint2 packed = *(const uint2*)x;
    return make_float4(__uint_as_float(packed.x << 16), __uint_as_float(packed.x & 0xffff0000u),
                       __uint_as_float(packed.y << 16), __uint_as_float(packed.y & 0xffff0000u));
}
DEVICE void narrow4(float4 x, float* y) { *(float4*)y = x; }
DEVICE void narrow4(float4 x, bf16* y) { *(uint2*)y = make_uint2(pack(x.x, x.y), pack(x.z, x.w)); }

template <typename T> DEVICE T warp_sum(T x) {
    for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(~0u, x, offset);
    return x;
}

// The sum over a block, for all of its threads; the order of additions is always the same.
template <typename T> DEVICE T block_sum(T x) {
    __shared__ T parts[32];
    x = warp_sum(x);
    __syncthreads();
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
    __syncthreads();
    x = threadIdx.x % 32 < blockDim.x / 32 ? parts[threadIdx.x % 32] : T(0);
    return warp_sum(x);
}
