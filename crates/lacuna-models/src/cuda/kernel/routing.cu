// Mixtures of experts: which experts a row goes through, which rows an expert gets, and the tiles that makes. One launch does it all,
// without a wait of the host; blocks without work end at once. What a row gets depends on itself alone.

// True for the last of `count` blocks that come here, which then sees what the others have written.
DEVICE bool is_last(u32* arrived, u32 count) {
    __shared__ u32 before;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        before = atomicAdd(arrived, 1u);
        if (before + 1 == count) *arrived = 0;
    }
    __syncthreads();
    __threadfence();
    return before + 1 == count;
}

// A number that is the larger, the larger the float is.
DEVICE u32 ordered(float x) {
    const u32 bits = __float_as_uint(x);
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}

// Four neighbours of a row. If it is not of a WHOLE number of these, it ends with zeros.
template <bool WHOLE, typename T> DEVICE float4 four_of(const T* row, u32 at, u32 width) {
    if (WHOLE) return widen4(row + at);
    auto value = [&](u32 i) { return at + i < width ? widen(row[at + i]) : 0.0f; };
    return make_float4(value(0), value(1), value(2), value(3));
}

// sums[row][expert] += what this thread takes of k.
template <bool WHOLE>
DEVICE void add_scores(float (&sums)[ROUTED * ROUTED], const element* const (&rows)[ROUTED], const float* const (&experts)[ROUTED], u32 width) {
#pragma unroll 2
    for (u32 at = threadIdx.x * 4; at < width; at += ROUTERS * 4) {
        float4 x[ROUTED], w[ROUTED];
#pragma unroll
        for (u32 i = 0; i < ROUTED; i++) w[i] = four_of<WHOLE>(experts[i], at, width), x[i] = four_of<WHOLE>(rows[i], at, width);
#pragma unroll
        for (u32 j = 0; j < ROUTED; j++)
#pragma unroll
            for (u32 i = 0; i < ROUTED; i++)
                sums[j * ROUTED + i] += x[j].x * w[i].x + x[j].y * w[i].y + x[j].z * w[i].z + x[j].w * w[i].w;
    }
}

// Scores of ROUTED rows for ROUTED experts. A thread takes some of k for all of them.
DEVICE void score(const Routing& r, u32 first_row, u32 first_expert, u32 present) {
    constexpr u32 SUMS = ROUTED * ROUTED;
    static_assert(SUMS == 64, "a warp's lanes end with two sums each");
    __shared__ float parts[ROUTERS / 32][SUMS];
    const u32 lane = threadIdx.x % 32;
    const float* experts[ROUTED];
    const element* rows[ROUTED];
#pragma unroll
    for (u32 i = 0; i < ROUTED; i++) {
        experts[i] = r.router + (size_t)min(first_expert + i, r.experts - 1) * r.width;
        rows[i] = r.input + (size_t)min(first_row + i, present - 1) * r.width;
    }
    float sums[SUMS] = {};
    if (r.width % 4 == 0)
        add_scores<true>(sums, rows, experts, r.width);
    else
        add_scores<false>(sums, rows, experts, r.width);
    // Lanes exchange halves of what they have, until each has two sums over its warp: 2 * lane and the next.
#pragma unroll
    for (u32 half = SUMS / 2; half > 1; half /= 2) {
        const bool upper = lane & half / 2;
#pragma unroll
        for (u32 i = 0; i < SUMS / 2; i++)
            if (i < half) {
                const float mine = upper ? sums[i + half] : sums[i], other = upper ? sums[i] : sums[i + half];
                sums[i] = mine + __shfl_xor_sync(~0u, other, half / 2);
            }
    }
    parts[threadIdx.x / 32][lane * 2] = sums[0], parts[threadIdx.x / 32][lane * 2 + 1] = sums[1];
    __syncthreads();
    const u32 row = first_row + threadIdx.x / ROUTED, expert = first_expert + threadIdx.x % ROUTED;
    if (threadIdx.x >= SUMS || row >= present || expert >= r.experts) return;
    float sum = 0.0f;
    for (u32 warp = 0; warp < ROUTERS / 32; warp++) sum += parts[warp][threadIdx.x];
    r.scores[(size_t)row * r.experts + expert] = sum;
}

// Floats that a warp chooses in.
DEVICE u32 choice_room(const Routing& r) { return r.experts + max(r.groups, r.active) + r.active; }

// For each group of experts zero, or minus infinity if it may not be chosen from: a group's score is the sum of its two best. The preferences
// are lost.
DEVICE void judge_groups(const Routing& r, float* preferences, float* groups) {
    const u32 lane = threadIdx.x % 32, size = r.experts / r.groups;
    // Lanes share groups: as many for each as there are, a power of two.
    u32 share = 1;
    while (2 * share * r.groups <= 32) share *= 2;
    for (u32 first = 0; first < r.groups; first += 32 / share) {
        const u32 group = first + lane / share;
        float best = -INFINITE, second = -INFINITE;
        for (u32 i = lane % share; group < r.groups && i < size; i += share) {
            const float value = preferences[group * size + i];
            second = value > best ? best : fmaxf(second, value);
            best = fmaxf(best, value);
        }
        for (u32 offset = share / 2; offset > 0; offset /= 2) {
            const float its = __shfl_xor_sync(~0u, best, offset), next = __shfl_xor_sync(~0u, second, offset);
            second = fmaxf(fminf(best, its), fmaxf(second, next));
            best = fmaxf(best, its);
        }
        if (group < r.groups && lane % share == 0) groups[group] = best + second;
    }
    __syncwarp();
    // Scores stay until all groups have been compared with them.
    for (u32 group = lane; group < r.groups; group += 32) {
        u32 ahead = 0;
        for (u32 other = 0; other < r.groups; other++)
            ahead += groups[other] > groups[group] || (groups[other] == groups[group] && other < group);
        preferences[group] = ahead < r.kept ? 0.0f : -INFINITE;
    }
    __syncwarp();
    for (u32 group = lane; group < r.groups; group += 32) groups[group] = preferences[group];
    __syncwarp();
}

// The experts of a row, ascending, and their weights. A warp takes a row, each lane up to EACH experts. Ties go to the lower expert.
template <u32 EACH> DEVICE void choose(const Routing& r, u32 row, float* room) {
    const u32 lane = threadIdx.x % 32;
    float chances[EACH], bias[EACH], top = -INFINITE, total = 0.0f;
#pragma unroll
    for (u32 i = 0; i < EACH; i++) {
        const u32 e = lane + i * 32;
        chances[i] = e < r.experts ? __ldcg(r.scores + (size_t)row * r.experts + e) : -INFINITE;
        bias[i] = r.bias && e < r.experts ? r.bias[e] : 0.0f;
        top = fmaxf(top, chances[i]);
    }
    for (int offset = 16; offset > 0; offset /= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, offset));
#pragma unroll
    for (u32 i = 0; i < EACH; i++) {
        chances[i] = r.softmax ? expf(chances[i] - top) : 1.0f / (1.0f + expf(-chances[i]));
        total += chances[i];
    }
    total = r.softmax ? warp_sum(total) : 1.0f;
    float* weights = room;
    float* groups = room + r.experts;
#pragma unroll
    for (u32 i = 0; i < EACH; i++) {
        chances[i] /= total;
        if (r.groups > 0 && lane + i * 32 < r.experts) weights[lane + i * 32] = chances[i] + bias[i];
    }
    __syncwarp();
    if (r.groups > 0) judge_groups(r, weights, groups);
    // Numbers that order the experts, zero for those that cannot be chosen any more.
    u32 keys[EACH];
#pragma unroll
    for (u32 i = 0; i < EACH; i++) {
        const u32 e = lane + i * 32;
        const float judged = r.groups > 0 && e < r.experts ? groups[e / (r.experts / r.groups)] : 0.0f;
        keys[i] = e < r.experts ? ordered(chances[i] + bias[i] + judged) : 0;
    }
    __syncwarp();
#pragma unroll
    for (u32 i = 0; i < EACH; i++)
        if (lane + i * 32 < r.experts) weights[lane + i * 32] = chances[i] + (r.weighted_bias ? bias[i] : 0.0f);
    u32* picked = (u32*)groups;
    for (u32 number = 0; number < r.active; number++) {
        u32 most = 0, best = 0;
#pragma unroll
        for (u32 i = 0; i < EACH; i++)
            if (keys[i] > most) most = keys[i], best = lane + i * 32;
        const u32 highest = __reduce_max_sync(~0u, most);
        best = __reduce_min_sync(~0u, most == highest ? best : r.experts - 1);
#pragma unroll
        for (u32 i = 0; i < EACH; i++)
            if (lane + i * 32 == best) keys[i] = 0;
        if (lane == 0) picked[number] = best;
    }
    __syncwarp();
    float* values = groups + max(r.groups, r.active);
    for (u32 i = lane; i < r.active; i += 32) {
        u32 place = 0;
        for (u32 j = 0; j < r.active; j++) place += picked[j] < picked[i];
        r.chosen[(size_t)row * r.slots + place] = picked[i];
        values[place] = weights[picked[i]];
    }
    __syncwarp();
    float sum = 0.0f;
    for (u32 i = 0; r.renormalized && i < r.active; i++) sum += values[i];
    for (u32 i = lane; i < r.active; i += 32)
        r.weights[(size_t)row * r.slots + i] = (r.renormalized ? values[i] / (sum + 1e-20f) : values[i]) * r.scale;
    // The shared expert comes behind the others.
    if (r.slots > r.active && lane == 0) {
        r.chosen[(size_t)row * r.slots + r.active] = r.experts;
        r.weights[(size_t)row * r.slots + r.active] = 1.0f;
    }
}

// Orders what was chosen by expert, and cuts the rows of each expert into tiles. One block does it all.
DEVICE void group(const Routing& r, u32 present, u32* places) {
    __shared__ u64 warps[ROUTERS / 32];
    const u32 count = present * r.slots, lane = threadIdx.x % 32;
    for (u32 e = threadIdx.x; e < r.all_experts; e += ROUTERS) places[e] = 0;
    __syncthreads();
    for (u32 i = threadIdx.x; i < count; i += ROUTERS) atomicAdd(places + __ldcg(r.chosen + i), 1u);
    __syncthreads();

    // Rows and tiles before the experts of each thread: tiles in the upper half.
    auto size = [&](u32 e) { return (u64)((places[e] + r.tile_rows - 1) / r.tile_rows) << 32 | places[e]; };
    const u32 share = (r.all_experts + ROUTERS - 1) / ROUTERS;
    const u32 begin = min(threadIdx.x * share, r.all_experts), end = min(begin + share, r.all_experts);
    u64 own = 0;
    u32 used = 0;
    for (u32 e = begin; e < end; e++) own += size(e), used += places[e] > 0;
    if (used) atomicAdd(r.used, used);
    u64 sum = own;
    for (u32 offset = 1; offset < 32; offset *= 2) {
        const u64 other = __shfl_up_sync(~0u, sum, offset);
        if (lane >= offset) sum += other;
    }
    if (lane == 31) warps[threadIdx.x / 32] = sum;
    __syncthreads();
    u64 before = sum - own, all = 0;
    for (u32 warp = 0; warp < ROUTERS / 32; warp++) {
        if (warp < threadIdx.x / 32) before += warps[warp];
        all += warps[warp];
    }
    for (u32 e = begin; e < end; e++) {
        const u64 its = size(e);
        const u32 rows = places[e], start = (u32)before;
        for (u32 first = 0, at = (u32)(before >> 32); first < rows; first += r.tile_rows, at++)
            r.tiles[at] = {e, start + first, min(rows - first, r.tile_rows)};
        places[e] = start;
        before += its;
    }
    if (threadIdx.x == 0) *r.tile_count = (u32)(all >> 32);
    __syncthreads();
    for (u32 i = threadIdx.x; i < count; i += ROUTERS) r.order[atomicAdd(places + __ldcg(r.chosen + i), 1u)] = i;
}

// A block scores ROUTED rows for ROUTED experts. The last one of these rows chooses their experts, the last one of all groups the rows.
KERNEL __launch_bounds__(ROUTERS) route(Routing r) {
    follow();
    extern __shared__ float choices[];
    const u32 first_row = blockIdx.y * ROUTED, present = *r.present, row = first_row + threadIdx.x / 32;
    if (present == 0 && blockIdx.x + blockIdx.y + threadIdx.x == 0) *r.tile_count = 0;
    if (first_row >= present) return;
    score(r, first_row, blockIdx.x * ROUTED, present);
    if (!is_last(r.arrived + 1 + blockIdx.y, gridDim.x)) return;
    float* mine = choices + threadIdx.x / 32 * choice_room(r);
    if (row < present) {
        if (r.experts <= 256)
            choose<8>(r, row, mine);
        else
            choose<MOST_EXPERTS / 32>(r, row, mine);
    }
    if (is_last(r.arrived, (present + ROUTED - 1) / ROUTED)) group(r, present, (u32*)choices);
}
