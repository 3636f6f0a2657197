// Mixtures of experts. Everything is decided on the GPU: which experts a row goes through, which rows an expert gets, and how many
// tiles that makes; launches are as large as they might have to be, and blocks without work end at once. What a row gets depends on
// itself alone: the order of the rows of an expert is any, and a row adds up its experts in ascending order.

// Scores of the rows: a warp takes an expert and some rows.
KERNEL route(Routing r) {
    const u32 expert = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    const u32 first = blockIdx.y * ROUTED_ROWS, present = *r.present;
    if (expert >= r.experts || first >= present) return;
    const float* weights = r.router + (size_t)expert * r.width;
    const element* rows[ROUTED_ROWS];
    for (int i = 0; i < ROUTED_ROWS; i++) rows[i] = r.input + (size_t)min(first + i, present - 1) * r.width;
    float sums[ROUTED_ROWS] = {};
    if (r.width % 4 == 0) {
        for (u32 k = lane * 4; k < r.width; k += 128) {
            const float4 w = widen4(weights + k);
#pragma unroll
            for (int i = 0; i < ROUTED_ROWS; i++) {
                const float4 x = widen4(rows[i] + k);
                sums[i] += x.x * w.x + x.y * w.y + x.z * w.z + x.w * w.w;
            }
        }
    } else {
        for (u32 k = lane; k < r.width; k += 32)
            for (int i = 0; i < ROUTED_ROWS; i++) sums[i] += widen(rows[i][k]) * weights[k];
    }
    for (int i = 0; i < ROUTED_ROWS; i++) {
        const float sum = warp_sum(sums[i]);
        if (lane == 0 && first + i < present) r.scores[(size_t)(first + i) * r.experts + expert] = sum;
    }
}

// The sum of a group's two best. Each lane begins with another one, so that they use different banks.
DEVICE float group_score(const float* preferences, u32 size, u32 lane) {
    float best = -INFINITE, second = -INFINITE;
    for (u32 i = 0, at = lane % size; i < size; i++, at = at + 1 < size ? at + 1 : 0) {
        const float value = preferences[at];
        second = value > best ? best : fmaxf(second, value);
        best = fmaxf(best, value);
    }
    return best + second;
}

// The experts of a row, ascending, and their weights. A warp takes a row. Ties go to the lower expert.
KERNEL choose(Choice c) {
    extern __shared__ float chances[];
    float* preferences = chances + c.experts;
    float* groups = preferences + c.experts;
    u32* picked = (u32*)(groups + c.groups);
    const u32 row = blockIdx.x, lane = threadIdx.x;
    if (row >= *c.present) return;
    const float* scores = c.scores + (size_t)row * c.experts;
    float top = -INFINITE, total = 0.0f;
    for (u32 e = lane; e < c.experts; e += 32) top = fmaxf(top, scores[e]);
    for (int offset = 16; offset > 0; offset /= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, offset));
    for (u32 e = lane; e < c.experts; e += 32) {
        chances[e] = c.softmax ? expf(scores[e] - top) : 1.0f / (1.0f + expf(-scores[e]));
        total += chances[e];
    }
    total = c.softmax ? warp_sum(total) : 1.0f;
    for (u32 e = lane; e < c.experts; e += 32) {
        chances[e] /= total;
        preferences[e] = chances[e] + (c.bias ? c.bias[e] : 0.0f);
    }
    __syncwarp();
    if (c.groups > 0) {
        const u32 size = c.experts / c.groups;
        for (u32 group = lane; group < c.groups; group += 32) 
            groups[group] = group_score(preferences + group * size, size, lane);
        __syncwarp();
        for (u32 group = lane; group < c.groups; group += 32) {
            u32 ahead = 0;
            for (u32 other = 0; other < c.groups; other++)
                ahead += groups[other] > groups[group] || (groups[other] == groups[group] && other < group);
            for (u32 i = 0; ahead >= c.kept && i < size; i++) preferences[group * size + i] = -INFINITE;
        }
        __syncwarp();
    }
    for (u32 number = 0; number < c.active; number++) {
        u32 best = lane < c.experts ? lane : 0;
        for (u32 e = best + 32; e < c.experts; e += 32)
            if (preferences[e] > preferences[best]) best = e;
        float value = preferences[best];
        for (int offset = 16; offset > 0; offset /= 2) {
            const u32 other = __shfl_xor_sync(~0u, best, offset);
            const float its = __shfl_xor_sync(~0u, value, offset);
            if (its > value || (its == value && other < best)) best = other, value = its;
        }
        // Where scores are not numbers, lanes may differ.
        best = __shfl_sync(~0u, best, 0);
        if (lane == 0) picked[number] = best, preferences[best] = -INFINITE;
        __syncwarp();
    }
    u32* chosen = c.chosen + (size_t)row * c.slots;
    float* weights = c.weights + (size_t)row * c.slots;
    auto weight = [&](u32 expert) { return chances[expert] + (c.weighted_bias ? c.bias[expert] : 0.0f); };
    for (u32 i = lane; i < c.active; i += 32) {
        u32 place = 0;
        for (u32 j = 0; j < c.active; j++) place += picked[j] < picked[i] || (picked[j] == picked[i] && j < i);
        chosen[place] = picked[i];
        preferences[place] = weight(picked[i]);
    }
    __syncwarp();
    float sum = 0.0f;
    for (u32 i = 0; c.renormalized && i < c.active; i++) sum += preferences[i];
    for (u32 i = lane; i < c.active; i += 32)
        weights[i] = (c.renormalized ? preferences[i] / (sum + 1e-20f) : preferences[i]) * c.scale;
    // The shared expert comes behind the others.
    if (c.slots > c.active && lane == 0) chosen[c.active] = c.experts, weights[c.active] = 1.0f;
}

// Orders what was chosen by expert, and cuts the rows of each expert into tiles. One block does it all.
KERNEL group(Grouping g) {
    extern __shared__ u32 places[];
    __shared__ u64 warps[32];
    const u32 count = *g.present * g.slots, lane = threadIdx.x % 32;
    for (u32 e = threadIdx.x; e < g.experts; e += blockDim.x) places[e] = 0;
    __syncthreads();
    for (u32 i = threadIdx.x; i < count; i += blockDim.x) atomicAdd(places + g.chosen[i], 1u);
    __syncthreads();

    // Rows and tiles before the experts of each thread: tiles in the upper half.
    auto size = [&](u32 e) { return (u64)((places[e] + EXPERT_ROWS - 1) / EXPERT_ROWS) << 32 | places[e]; };
    const u32 share = (g.experts + blockDim.x - 1) / blockDim.x;
    const u32 begin = min(threadIdx.x * share, g.experts), end = min(begin + share, g.experts);
    u64 own = 0;
    u32 used = 0;
    for (u32 e = begin; e < end; e++) own += size(e), used += places[e] > 0;
    if (used) atomicAdd(g.used, used);
    u64 sum = own;
    for (u32 offset = 1; offset < 32; offset *= 2) {
        const u64 other = __shfl_up_sync(~0u, sum, offset);
        if (lane >= offset) sum += other;
    }
    if (lane == 31) warps[threadIdx.x / 32] = sum;
    __syncthreads();
    u64 before = sum - own, all = 0;
    for (u32 warp = 0; warp < blockDim.x / 32; warp++) {
        if (warp < threadIdx.x / 32) before += warps[warp];
        all += warps[warp];
    }
    for (u32 e = begin; e < end; e++) {
        const u64 its = size(e);
        const u32 rows = places[e], start = (u32)before;
        for (u32 first = 0, at = (u32)(before >> 32); first < rows; first += EXPERT_ROWS, at++)
            g.tiles[at] = {e, start + first, min(rows - first, (u32)EXPERT_ROWS)};
        places[e] = start;
        before += its;
    }
    for (u32 at = (u32)(all >> 32) + threadIdx.x; at < g.most_tiles; at += blockDim.x) g.tiles[at] = {0, 0, 0};
    __syncthreads();
    for (u32 i = threadIdx.x; i < count; i += blockDim.x) g.order[atomicAdd(places + g.chosen[i], 1u)] = i;
}

// Products of the rows of a tile with STRETCH rows of weights, in shared memory: [row][weight], TILE_PITCH apart. `source(i)` is the
// input row of row i, `weight(i)` the row of weights, or ABSENT. Sums run over k in order.
template <typename Source, typename Weight>
DEVICE float* expert_products(const ExpertProduct& p, u32 count, Source source, Weight weight) {
#if BF16
    extern __shared__ __align__(16) bf16 room[];
    bf16* stages = room + -shared_address(room) % 1024 / 2;
    const u32 slices = (p.k + SLICE - 1) / SLICE;
    auto stage = [&](u32 slice) { return stages + slice % STAGES * (STRETCH + TILE) * SLICE; };
    auto load = [&](u32 slice) {
        if (slice < slices) {
            fetch_slice<STRETCH>(stage(slice), p.weights, p.k, slice * SLICE, weight);
            fetch_slice<TILE>(stage(slice) + STRETCH * SLICE, p.input, p.k, slice * SLICE, source, (count + 15) / 16 * 16);
        }
        commit();
    };
    float sums[TILE / 8][4] = {};
    for (u32 slice = 0; slice < STAGES - 1; slice++) load(slice);
    for (u32 slice = 0; slice < slices; slice++) {
        arrive<STAGES - 2>();
        // Into the stage that was multiplied last.
        load(slice + STAGES - 1);
        multiply_by_warp(sums, stage(slice), stage(slice) + STRETCH * SLICE, count);
    }
    __syncthreads();
    float* tile = (float*)stages;
    spread_sums(sums, tile);
#else
    extern __shared__ float tile[];
    add_products(tile, p.input, p.weights, p.k, source, weight);
#endif
    __syncthreads();
    return tile;
}

// inner[slot] = silu(gate) * up of the rows of each expert. A block takes as many gates as values.
KERNEL __launch_bounds__(CREW, 2) expert_gate_up(ExpertProduct p) {
    const ExpertTile its = p.tiles[blockIdx.x];
    if (its.count == 0) return;
    const u32 width = p.n / 2, first = blockIdx.y * (STRETCH / 2);
    __shared__ u32 rows[TILE];
    for (u32 i = threadIdx.x; i < TILE; i += CREW) rows[i] = i < its.count ? p.order[its.first + i] / p.slots : ABSENT;
    __syncthreads();
    auto source = [&](u32 i) { return rows[i]; };
    auto weight = [&](u32 i) {
        const u32 column = first + i % (STRETCH / 2);
        return column < width ? its.expert * p.n + i / (STRETCH / 2) * width + column : ABSENT;
    };
    const float* tile = expert_products(p, its.count, source, weight);
    for (u32 index = threadIdx.x; index < its.count * (STRETCH / 2); index += CREW) {
        const u32 row = index / (STRETCH / 2), i = index % (STRETCH / 2);
        const float* sums = tile + row * TILE_PITCH + i;
        if (first + i < width)
            narrow(silu(sums[0]) * sums[STRETCH / 2], (element*)p.output + (size_t)(its.first + row) * width + first + i);
    }
}

// output[row of the layout, number of its expert] = what the expert makes of the row.
KERNEL __launch_bounds__(CREW, 2) expert_down(ExpertProduct p) {
    const ExpertTile its = p.tiles[blockIdx.x];
    if (its.count == 0) return;
    const u32 first = blockIdx.y * STRETCH;
    auto source = [&](u32 i) { return i < its.count ? its.first + i : ABSENT; };
    auto weight = [&](u32 i) { return first + i < p.n ? its.expert * p.n + first + i : ABSENT; };
    const float* tile = expert_products(p, its.count, source, weight);
    for (u32 index = threadIdx.x; index < its.count * STRETCH; index += CREW) {
        const u32 row = index / STRETCH, i = index % STRETCH;
        if (first + i < p.n)
            ((float*)p.output)[(size_t)p.order[its.first + row] * p.n + first + i] = tile[row * TILE_PITCH + i];
    }
}

// hidden += the sum of what a row's experts make of it, weighted.
KERNEL combine(Combination c) {
    const u32 row = blockIdx.x;
    if (row >= *c.present) return;
    float* hidden = c.hidden + (size_t)row * c.width;
    const float* weights = c.weights + (size_t)row * c.slots;
    const float* outputs = c.outputs + (size_t)row * c.slots * c.width;
    for (u32 i = blockIdx.y * blockDim.x + threadIdx.x; i < c.width; i += gridDim.y * blockDim.x) {
        float sum = hidden[i];
        for (u32 number = 0; number < c.slots; number++) sum += weights[number] * outputs[(size_t)number * c.width + i];
        hidden[i] = sum;
    }
}
