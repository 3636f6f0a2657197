// Single rows between matrix products: a block takes a row. The structs are in rows.rs.

KERNEL embed(Embedding e) {
    size_t from = (size_t)e.tokens[blockIdx.x] * e.width, to = (size_t)blockIdx.x * e.width;
    for (u32 i = threadIdx.x; i < e.width; i += blockDim.x)
        e.hidden[to + i] = e.table_is_bf16 ? widen(((const bf16*)e.table)[from + i]) : ((const float*)e.table)[from + i];
}

DEVICE const float* row_of(const Norm& n) {
    return n.input + (size_t)(n.rows ? n.rows[blockIdx.x] : blockIdx.x) * n.width;
}

// 1 / sqrt(mean(row^2) + epsilon); the row is copied on the way.
DEVICE float scale_of(const Norm& n) {
    const float* row = row_of(n);
    float* copy = n.copy ? n.copy + (size_t)blockIdx.x * n.width : nullptr;
    float squares = 0.0f;
    if (n.width % 4 == 0) {
        for (u32 i = threadIdx.x * 4; i < n.width; i += blockDim.x * 4) {
            float4 x = widen4(row + i);
            squares += x.x * x.x + x.y * x.y + x.z * x.z + x.w * x.w;
            if (copy) narrow4(x, copy + i);
        }
    } else {
        for (u32 i = threadIdx.x; i < n.width; i += blockDim.x) {
            squares += row[i] * row[i];
            if (copy) copy[i] = row[i];
        }
    }
    const double mean = block_sum((double)squares) / n.width;
    return (float)(1.0 / sqrt(mean + (double)n.epsilon));
}

// output = row / sqrt(mean(row^2) + epsilon) * weight
KERNEL rms_norm(Norm n) {
    const float* row = row_of(n);
    const float scale = scale_of(n);
    element* output = (element*)n.output + (size_t)blockIdx.x * n.width;
    if (n.width % 4 == 0) {
        for (u32 i = threadIdx.x * 4; i < n.width; i += blockDim.x * 4) {
            float4 x = widen4(row + i), w = widen4(n.weight + i);
            narrow4(make_float4(x.x * scale * w.x, x.y * scale * w.y, x.z * scale * w.z, x.w * scale * w.w), output + i);
        }
    } else {
        for (u32 i = threadIdx.x; i < n.width; i += blockDim.x) narrow(row[i] * scale * n.weight[i], output + i);
    }
}

// Rotary embedding in the "rotate half" convention, after the bias.
KERNEL rotate(Rotation r) {
    const u32 half = HEAD_SIZE / 2, step = half % 4 == 0 ? 4 : 1;
    element* row = r.data + (size_t)blockIdx.x * r.heads * HEAD_SIZE;
    const u32 position = r.positions[r.rows ? r.rows[blockIdx.x] : blockIdx.x];
    const float *cosines = r.cosines + (size_t)position * half, *sines = r.sines + (size_t)position * half;
    const u32 heads = r.bias ? r.heads : r.rotated;
    for (u32 index = threadIdx.x * step; index < heads * half; index += blockDim.x * step) {
        const u32 head = index / half, i = index % half, at = head * HEAD_SIZE + i;
        float x[4], y[4];
#if HEAD_SIZE % 8 == 0
        *(float4*)x = widen4(row + at);
        *(float4*)y = widen4(row + at + half);
#else
        x[0] = widen(row[at]);
        y[0] = widen(row[at + half]);
#endif
        for (u32 j = 0; j < step; j++) {
            if (r.bias) {
                x[j] += r.bias[at + j];
                y[j] += r.bias[at + half + j];
            }
            if (head < r.rotated) {
                const float cosine = cosines[i + j], sine = sines[i + j], first = x[j];
                x[j] = first * cosine - y[j] * sine;
                y[j] = y[j] * cosine + first * sine;
            }
        }
#if HEAD_SIZE % 8 == 0
        narrow4(*(float4*)x, row + at);
        narrow4(*(float4*)y, row + at + half);
#else
        narrow(x[0], row + at);
        narrow(y[0], row + at + half);
#endif
    }
}

DEVICE float silu(float x) { return x / (1.0f + expf(-x)); }

// output = silu(gate) * up
KERNEL silu_times(Gate g) {
    const element* gate = g.gate_up + (size_t)blockIdx.x * 2 * g.width;
    const element* up = gate + g.width;
    element* output = (element*)g.output + (size_t)blockIdx.x * g.width;
    if (g.width % 4 == 0) {
        for (u32 i = (blockIdx.y * blockDim.x + threadIdx.x) * 4; i < g.width; i += gridDim.y * blockDim.x * 4) {
            float4 x = widen4(gate + i), y = widen4(up + i);
            narrow4(make_float4(silu(x.x) * y.x, silu(x.y) * y.y, silu(x.z) * y.z, silu(x.w) * y.w), output + i);
        }
    } else {
        for (u32 i = blockIdx.y * blockDim.x + threadIdx.x; i < g.width; i += gridDim.y * blockDim.x)
            narrow(silu(widen(gate[i])) * widen(up[i]), output + i);
    }
}

KERNEL cache_store(CacheStore c) {
    const CacheSlot slot = c.slots[blockIdx.x];
    if (!slot.first) return;
    element* to = slot.first + c.layer * slot.layer_stride;
    const element* from = c.keys + (size_t)blockIdx.x * c.stride;
    for (u32 i = threadIdx.x; i < c.width; i += blockDim.x) to[i] = from[i];
}
