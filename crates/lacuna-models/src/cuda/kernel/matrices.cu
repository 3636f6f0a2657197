// Whole attention matrices, the mean over heads. A block takes a row of a view; the scores of a head lie in shared memory. It is for
// those who ask what attends to what: no tensor cores, and nothing that attention itself has computed is used.

// The largest over a block, for all of its threads, which must not be in the middle of another.
DEVICE float block_top(float x) {
    __shared__ float parts[32];
    for (int offset = 16; offset > 0; offset /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, offset));
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
    __syncthreads();
    for (u32 warp = 0; warp < blockDim.x / 32; warp++) x = fmaxf(x, parts[warp]);
    return x;
}

KERNEL add_attention(Matrices m) {
    extern __shared__ float line[];
    __shared__ float query[HEAD_SIZE];
    const MatrixTask task = m.tasks[blockIdx.y];
    const u32 row = blockIdx.x, lane = threadIdx.x % 32;
    if (row >= task.rows) return;
    const u32 prefix = prefix_of(m.positions[task.start + row], task.first_block, task.block, task.length);
    const u32 stride = task.cached ? 2 * m.key_value_heads * HEAD_SIZE : m.key_stride;
    const element* first = task.cached ? task.cached + (size_t)m.layer * task.capacity * stride : m.keys + (size_t)task.start * stride;
    float *sums = line, *weights = line + task.length;
    for (u32 key = threadIdx.x; key < task.length; key += blockDim.x) sums[key] = 0.0f;
    for (u32 head = 0; head < m.heads; head++) {
        const u32 key_head = head * m.key_value_heads / m.heads;
        const element* queries = m.queries + (size_t)(task.start + row) * m.query_stride + head * HEAD_SIZE;
        const element* keys = first + key_head * HEAD_SIZE;
        __syncthreads();
        for (u32 i = threadIdx.x; i < HEAD_SIZE; i += blockDim.x) query[i] = widen(queries[i]) * m.scale;
        __syncthreads();
        float top = -INFINITE, total = 0.0f;
        for (u32 key = threadIdx.x / 32; key < prefix; key += blockDim.x / 32) {
            float sum = 0.0f;
            for (u32 i = lane; i < HEAD_SIZE; i += 32) sum += query[i] * widen(keys[(size_t)key * stride + i]);
            sum = warp_sum(sum);
            if (lane == 0) weights[key] = sum;
            top = fmaxf(top, sum);
        }
        top = block_top(top);
        for (u32 key = threadIdx.x; key < prefix; key += blockDim.x) {
            weights[key] = expf(weights[key] - top);
            total += weights[key];
        }
        total = block_sum(total);
        for (u32 key = threadIdx.x; key < prefix; key += blockDim.x) sums[key] += weights[key] / total;
    }
    float* output = m.output + task.output + (size_t)row * task.length;
    for (u32 key = threadIdx.x; key < task.length; key += blockDim.x)
        output[key] = (task.first ? 0.0f : output[key]) + sums[key] * task.factor;
}
