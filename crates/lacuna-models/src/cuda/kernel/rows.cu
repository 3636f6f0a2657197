// Single rows between matrix products: a block takes a row. The structs are in rows.rs.

KERNEL embed(Embedding e) {
    follow();
    const u32 token = e.tokens[blockIdx.x];
    const size_t from = (size_t)token * e.width, to = (size_t)blockIdx.x * e.width;
    const float scale = e.bits == 8 ? e.row_scales[token] : 1.0f;
    auto value = [&](size_t at) {
        switch (e.bits) {
            case 8: return (float)((const signed char*)e.table)[at] * scale;
            case 16: return widen(((const bf16*)e.table)[at]);
            default: return ((const float*)e.table)[at];
        }
    };
    for (u32 i = threadIdx.x; i < e.width; i += blockDim.x) e.hidden[to + i] = value(from + i);
}

#define PAIRS ((HEAD_SIZE / 2 + 31) / 32)  // of values of a head, that a lane takes

DEVICE const float* row_of(const Norm& n) {
    return n.input + (size_t)(n.rows ? n.rows[blockIdx.x] : blockIdx.x) * n.width;
}

// 1 / sqrt(mean(row^2) + epsilon), of the squares that each thread has added up.
DEVICE float scale_of(const Norm& n, float squares) {
    const double mean = block_sum((double)squares) / n.width;
    return (float)(1.0 / sqrt(mean + (double)n.epsilon));
}

// The same for a row; it is copied on the way.
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
    return scale_of(n, squares);
}

#define KEPT 4  // times four values of a row, that a thread keeps

// output = row / sqrt(mean(row^2) + epsilon) * weight
KERNEL rms_norm(Norm n) {
    element* output = (element*)n.output + (size_t)blockIdx.x * n.width;
    if (n.width % 4 || n.width > KEPT * 4 * blockDim.x) {
        follow();
        const float* row = row_of(n);
        const float scale = scale_of(n);
        if (n.width % 4 == 0)
            for (u32 i = threadIdx.x * 4; i < n.width; i += blockDim.x * 4) {
                float4 x = widen4(row + i), w = widen4(n.weight + i);
                narrow4(make_float4(x.x * scale * w.x, x.y * scale * w.y, x.z * scale * w.z, x.w * scale * w.w), output + i);
            }
        else
            for (u32 i = threadIdx.x; i < n.width; i += blockDim.x) narrow(row[i] * scale * n.weight[i], output + i);
        return;
    }
    float4 x[KEPT], weights[KEPT];
    const u32 first = threadIdx.x * 4, apart = blockDim.x * 4;
#pragma unroll
    for (u32 j = 0; j < KEPT; j++)
        if (first + j * apart < n.width) weights[j] = widen4(n.weight + first + j * apart);
    follow();
    const float* row = row_of(n);
#pragma unroll
    for (u32 j = 0; j < KEPT; j++)
        if (first + j * apart < n.width) x[j] = widen4(row + first + j * apart);
    float squares = 0.0f;
#pragma unroll
    for (u32 j = 0; j < KEPT; j++) {
        if (first + j * apart >= n.width) continue;
        squares += x[j].x * x[j].x + x[j].y * x[j].y + x[j].z * x[j].z + x[j].w * x[j].w;
        if (n.copy) narrow4(x[j], n.copy + (size_t)blockIdx.x * n.width + first + j * apart);
    }
    const float scale = scale_of(n, squares);
#pragma unroll
    for (u32 j = 0; j < KEPT; j++) {
        if (first + j * apart >= n.width) continue;
        const float4 w = weights[j];
        narrow4(make_float4(x[j].x * scale * w.x, x[j].y * scale * w.y, x[j].z * scale * w.z, x[j].w * scale * w.w),
                output + first + j * apart);
    }
}

// The bias, the norm of each head, then the rotary embedding in the "rotate half" convention, and the KV cache. A warp takes a head; a lane takes
// pairs of values: those that are turned together, then those that are not turned.
KERNEL rotate(Rotation r) {
    follow();
    const u32 head = blockIdx.y * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (head >= (r.bias || r.slots ? r.heads : r.rotated)) return;
    element* values = r.data + ((size_t)blockIdx.x * r.heads + head) * HEAD_SIZE;
    const u32 rest = HEAD_SIZE / 2 - r.half;
    auto first = [&](u32 pair) { return pair < r.half ? pair : r.half + pair; };
    auto second = [&](u32 pair) { return pair < r.half ? r.half + pair : r.half + pair + rest; };
    float x[PAIRS], y[PAIRS], squares = 0.0f;
#pragma unroll
    for (int i = 0; i < PAIRS; i++) {
        const u32 pair = lane + 32 * i;
        if (pair >= HEAD_SIZE / 2) continue;
        x[i] = widen(values[first(pair)]);
        y[i] = widen(values[second(pair)]);
        if (r.bias) {
            x[i] += r.bias[head * HEAD_SIZE + first(pair)];
            y[i] += r.bias[head * HEAD_SIZE + second(pair)];
        }
        squares += x[i] * x[i] + y[i] * y[i];
    }
    const bool rotated = head < r.rotated;
    if (r.norms && rotated) {
        const float* weights = r.norms + (head < r.queries ? 0 : HEAD_SIZE);
        const double mean = warp_sum((double)squares) / HEAD_SIZE;
        const float scale = (float)(1.0 / sqrt(mean + (double)r.epsilon));
#pragma unroll
        for (int i = 0; i < PAIRS; i++) {
            const u32 pair = lane + 32 * i;
            if (pair >= HEAD_SIZE / 2) continue;
            x[i] *= scale * weights[first(pair)];
            y[i] *= scale * weights[second(pair)];
        }
    }
    element* cached = nullptr;
    if (r.slots && head >= r.queries && r.slots[blockIdx.x].first)
        cached = r.slots[blockIdx.x].first + r.layer * r.slots[blockIdx.x].layer_stride + (head - r.queries) * HEAD_SIZE;
    const u32 position = r.positions[r.rows ? r.rows[blockIdx.x] : blockIdx.x];
#pragma unroll
    for (int i = 0; i < PAIRS; i++) {
        const u32 pair = lane + 32 * i;
        if (pair >= HEAD_SIZE / 2) continue;
        if (rotated && pair < r.half) {
            const float cosine = r.cosines[(size_t)position * r.half + pair], sine = r.sines[(size_t)position * r.half + pair];
            const float before = x[i];
            x[i] = before * cosine - y[i] * sine;
            y[i] = y[i] * cosine + before * sine;
        }
        narrow(x[i], values + first(pair));
        narrow(y[i], values + second(pair));
        if (cached) {
            narrow(x[i], cached + first(pair));
            narrow(y[i], cached + second(pair));
        }
    }
}

KERNEL add_bias(Bias b) {
    float* row = b.hidden + (size_t)blockIdx.x * b.width;
    for (u32 i = threadIdx.x; i < b.width; i += blockDim.x) row[i] += b.bias[i];
}

DEVICE float silu(float x) { return x / (1.0f + expf(-x)); }

// output = silu(gate) * up
KERNEL silu_times(Gate g) {
    follow();
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
