// A matrix product of our own: for f32, and for sizes that cublasLt declines. Every sum runs over k in order, so that an
// output does not depend on what is computed with it.

#define SIDE PRODUCT_TILE
#define RUN 16

KERNEL __launch_bounds__(256) product(Product p) {
    __shared__ float input[RUN][SIDE + 4], weights[RUN][SIDE + 4];
    const u32 first_n = blockIdx.x * SIDE, first_m = blockIdx.y * SIDE;
    const u32 my_m = threadIdx.x / 16 * 4, my_n = threadIdx.x % 16 * 4;
    float sums[4][4] = {};
    for (u32 first_k = 0; first_k < p.k; first_k += RUN) {
        for (u32 index = threadIdx.x; index < SIDE * RUN; index += 256) {
            const u32 row = index / RUN, k = index % RUN;
            const u32 m = first_m + row, n = first_n + row, at = first_k + k;
            input[k][row] = at < p.k && m < p.m ? widen(p.input[(size_t)m * p.k + at]) : 0.0f;
            weights[k][row] = at < p.k && n < p.n ? widen(p.weights[(size_t)n * p.k + at]) : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < RUN; k++) {
            const float4 x = *(const float4*)&input[k][my_m], w = *(const float4*)&weights[k][my_n];
            const float xs[4] = {x.x, x.y, x.z, x.w}, ws[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 4; j++) sums[i][j] += xs[i] * ws[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) {
            const u32 m = first_m + my_m + i, n = first_n + my_n + j;
            if (m >= p.m || n >= p.n) continue;
            const size_t at = (size_t)m * p.n + n;
            if (p.output_is_f32) {
                float* output = (float*)p.output + at;
                *output = p.add ? *output + sums[i][j] : sums[i][j];
            } else {
                element* output = (element*)p.output + at;
                narrow(p.add ? widen(*output) + sums[i][j] : sums[i][j], output);
            }
        }
}

KERNEL compare(Comparison c) {
    u32 found = 0;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < c.words; i += (u64)gridDim.x * blockDim.x)
        found += c.one[i] != c.other[i];
    if (found) atomicAdd(c.different, found);
}

// f32 multiply-adds in registers, to measure the peak rate.
KERNEL ceiling(Ceiling c) {
    float sums[16];
    for (int i = 0; i < 16; i++) sums[i] = threadIdx.x + i;
    for (int turn = 0; turn < 4096; turn++)
#pragma unroll
        for (int i = 0; i < 16; i++) sums[i] = sums[i] * 0.999f + 0.5f;
    float sum = 0.0f;
    for (int i = 0; i < 16; i++) sum += sums[i];
    if (sum == 0.0f) *c.output = sum;
}
