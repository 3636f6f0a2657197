// Attention, full or block-causal, and with it the attention mass on unmasked positions that the dependency score is made of.
//
// One block of threads takes a tile of query rows and a head, and passes over the tile's keys in order, with a running
// maximum (Milakov & Gimelshein 2018; Dao et al. 2022). Nothing of the size length x length exists. A block may have several
// teams: each takes every TEAMS-th stage of keys, and their results are put together in order. A row's result depends on its
// own keys alone, not on the rows it shares a tile with.

// Keys and values of a head that a tile sees.
struct Seen {
    const element* keys;
    const element* values;
    u32 stride;
};

DEVICE Seen seen_by(const Attention& a, const Tile& tile, u32 head) {
    const u32 width = a.key_value_heads * HEAD_SIZE, at = head * HEAD_SIZE;
    if (tile.cached) {
        const element* cached = tile.cached + (size_t)a.layer * tile.capacity * 2 * width + at;
        return {cached, cached + width, 2 * width};
    }
    const size_t first = (size_t)tile.key_start * a.key_stride + at;
    return {a.keys + first, a.values + first, a.key_stride};
}

#define LOG2_E 1.4426950408889634f

// Length of the prefix of `length` positions that a position sees: up to the end of its block, if there are blocks.
DEVICE u32 prefix_of(u32 position, u32 first_block, u32 block, u32 length) {
    if (!block) return length;
    const u32 behind = position < first_block ? 0 : (position - first_block) / block + 1;
    return min(first_block + behind * block, length);
}

// What a row sees: the tokens of a prefix but one, and the shadows of that prefix.
struct Sight {
    u32 prefix, hidden;
};

DEVICE Sight sight_of(const Attention& a, const Tile& tile, u32 index) {
    Sight sight = {tile.tokens, ABSENT};
    if (index >= tile.count || !(tile.block || tile.shadow)) return sight;
    const u32 selected = tile.first + index, position = a.positions[a.rows ? a.rows[selected] : selected];
    if (tile.shadow) sight.hidden = position;
    sight.prefix = prefix_of(position, tile.first_block, tile.block, tile.tokens);
    return sight;
}

DEVICE bool is_seen(const Attention& a, const Tile& tile, Sight sight, u32 key) {
    if (key < tile.tokens) return key < sight.prefix && key != sight.hidden;
    return key < tile.key_count && a.positions[tile.key_start + key] < sight.prefix;
}

// Keys that all rows of a tile see, and the end of those that some row sees; for a whole warp.
struct Reach {
    u32 all, end;
};

DEVICE Reach reach_of(const Attention& a, const Tile& tile) {
    if (!tile.block) return {tile.shadow ? 0 : tile.key_count, tile.key_count};
    Reach reach = {tile.tokens, 0};
    for (u32 index = threadIdx.x % 32; index < tile.count; index += 32) {
        const u32 prefix = sight_of(a, tile, index).prefix;
        reach = {min(reach.all, prefix), max(reach.end, prefix)};
    }
    for (int offset = 16; offset > 0; offset /= 2) {
        reach.all = min(reach.all, __shfl_xor_sync(~0u, reach.all, offset));
        reach.end = max(reach.end, __shfl_xor_sync(~0u, reach.end, offset));
    }
    return tile.shadow ? Reach{0, tile.key_count} : reach;
}

#if BF16

DEVICE float exp2_fast(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// What a team's keys give for two rows of a thread: mixed values, the largest score, and sums of weights, in all and of unmasked keys.
struct Attended {
    float mixed[DEPTH / 8][4], top[2], total[2], part[2];
};

// Puts the results of a block's teams together in those of the first, through the shared memory that each has.
template <bool MASS> DEVICE void join(Attended& mine, float* shared, u32 team, u32 thread, float factor) {
    const u32 share = TEAM_STAGES * STAGE / 2, sums = DEPTH / 2 * THREADS;
    float* place = shared + team * share + thread;
    if (team) {
#pragma unroll
        for (int i = 0; i < DEPTH / 2; i++) place[i * THREADS] = mine.mixed[i / 4][i % 4];
#pragma unroll
        for (int half = 0; half < 2; half++) {
            place[sums + half * THREADS] = mine.top[half];
            place[sums + (2 + half) * THREADS] = mine.total[half];
            if (MASS) place[sums + (4 + half) * THREADS] = mine.part[half];
        }
    }
    __syncthreads();
    if (team) return;
    for (u32 other = 1; other < TEAMS; other++) {
        const float* its = place + other * share;
        float keep[2], take[2];
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const float its_top = its[sums + half * THREADS], best = fmaxf(mine.top[half], its_top);
            const float base = best == -INFINITE ? 0.0f : best * factor;
            keep[half] = best == mine.top[half] ? 1.0f : exp2_fast(mine.top[half] * factor - base);
            take[half] = best == its_top ? 1.0f : exp2_fast(its_top * factor - base);
            mine.top[half] = best;
            mine.total[half] = mine.total[half] * keep[half] + its[sums + (2 + half) * THREADS] * take[half];
            if (MASS) mine.part[half] = mine.part[half] * keep[half] + its[sums + (4 + half) * THREADS] * take[half];
        }
#pragma unroll
        for (int i = 0; i < DEPTH / 2; i++) {
            float& sum = mine.mixed[i / 4][i % 4];
            sum = sum * keep[i % 4 / 2] + its[i * THREADS] * take[i % 4 / 2];
        }
    }
}

template <bool MASS> DEVICE void attend(const Attention& a) {
    extern __shared__ __align__(16) bf16 shared[];
    __shared__ float opens[TEAMS][KEYS];
    const Tile tile = a.tiles[blockIdx.x];
    if (tile.count == 0) return;
    const u32 team = threadIdx.x / THREADS, thread = threadIdx.x % THREADS;
    // The permutation counts from multiples of 1024 bytes.
    bf16* queries = shared + (WARP_GROUP ? -shared_address(shared) % 1024 / 2 : 0);
    bf16* keys = queries + STAGE + team * TEAM_STAGES * STAGE;  // two stages
    bf16* values = keys + 2 * STAGE;
    float* open = opens[team];
    const u32 head = blockIdx.y, key_head = head * a.key_value_heads / a.heads;
    const u32 lane = thread % 32, group = lane / 4, pair = lane % 4 * 2;
    const u32 row = thread / 32 * 16 + group;  // and row + 8, of the tile
    const Seen seen = seen_by(a, tile, key_head);
    const Reach reach = reach_of(a, tile);

    const bf16* own = a.queries + (size_t)tile.first * a.query_stride + head * HEAD_SIZE;
    fetch<TEAMS * THREADS>(queries, own, a.query_stride, 0, tile.count, threadIdx.x);
    fetch<THREADS>(keys, seen.keys, seen.stride, team * KEYS, reach.end, thread);
    commit();
    fetch<THREADS>(values, seen.values, seen.stride, team * KEYS, reach.end, thread);
    commit();

    const Sight sights[2] = {sight_of(a, tile, row), sight_of(a, tile, row + 8)};
    const float factor = a.scale * LOG2_E;
    Attended mine = {{}, {-INFINITE, -INFINITE}};

    // Pending are the first values.
    arrive<1>();
    const Query query = load_query(queries);
    for (u32 first = team * KEYS, step = 0; first < reach.end; first += TEAMS * KEYS, step++) {
        if (step) {
            arrive_team<0>(team);
            fetch<THREADS>(values, seen.values, seen.stride, first, reach.end, thread);
        }
        commit();
        if (first + TEAMS * KEYS < reach.end)
            fetch<THREADS>(keys + (step + 1) % 2 * STAGE, seen.keys, seen.stride, first + TEAMS * KEYS, reach.end, thread);
        commit();
        if (MASS) {
            const u32 key = first + thread;
            if (thread < KEYS) open[thread] = key < reach.end ? a.open[tile.open_start + key] : 0.0f;
            await_team(team);
        }

        float scores[KEYS / 8][4];
        score(scores, query, queries, keys + step % 2 * STAGE);
        if (first + KEYS > reach.all) {
#pragma unroll
            for (int block = 0; block < KEYS / 8; block++)
                for (int i = 0; i < 4; i++) {
                    u32 key = first + block * 8 + pair + i % 2;
                    if (!is_seen(a, tile, sights[i / 2], key)) scores[block][i] = -INFINITE;
                }
        }

        float shrink[2];
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float best = mine.top[half];
#pragma unroll
            for (int block = 0; block < KEYS / 8; block++)
                best = fmaxf(best, fmaxf(scores[block][2 * half], scores[block][2 * half + 1]));
            best = fmaxf(best, __shfl_xor_sync(~0u, best, 1));
            best = fmaxf(best, __shfl_xor_sync(~0u, best, 2));
            const float base = best == -INFINITE ? 0.0f : best * factor;
            shrink[half] = best == mine.top[half] ? 1.0f : exp2_fast(mine.top[half] * factor - base);
            mine.top[half] = best;
            mine.total[half] *= shrink[half];
            mine.part[half] *= shrink[half];
#pragma unroll
            for (int block = 0; block < KEYS / 8; block++)
#pragma unroll
                for (int i = 2 * half; i < 2 * half + 2; i++) {
                    scores[block][i] = exp2_fast(scores[block][i] * factor - base);
                    mine.total[half] += scores[block][i];
                    if (MASS) mine.part[half] += scores[block][i] * open[block * 8 + pair + i % 2];
                }
        }
        // Once the largest scores have been seen, nothing shrinks any more.
        if (__any_sync(~0u, shrink[0] != 1.0f || shrink[1] != 1.0f)) {
#pragma unroll
            for (int block = 0; block < DEPTH / 8; block++)
#pragma unroll
                for (int i = 0; i < 4; i++) mine.mixed[block][i] *= shrink[i / 2];
        }
        u32 weights[KEYS / 16][4];
#pragma unroll
        for (int k = 0; k < KEYS / 16; k++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                weights[k][i] = pack(scores[2 * k + i / 2][i % 2 * 2], scores[2 * k + i / 2][i % 2 * 2 + 1]);
        arrive_team<1>(team);
        mix(mine.mixed, weights, values);
    }
    await_copies<0>();

#pragma unroll
    for (int half = 0; half < 2; half++) {
        mine.total[half] += __shfl_xor_sync(~0u, mine.total[half], 1);
        mine.total[half] += __shfl_xor_sync(~0u, mine.total[half], 2);
        if (MASS) {
            mine.part[half] += __shfl_xor_sync(~0u, mine.part[half], 1);
            mine.part[half] += __shfl_xor_sync(~0u, mine.part[half], 2);
        }
    }
    if (TEAMS > 1) {
        // A team's stages are read until all of it is done with them.
        await_team(team);
        join<MASS>(mine, (float*)(queries + STAGE), team, thread, factor);
        if (team) return;
    }
#pragma unroll
    for (int half = 0; half < 2; half++) {
        u32 index = row + half * 8;
        if (index >= tile.count) continue;
        float inverse = 1.0f / mine.total[half];
        if (MASS && pair == 0) a.mass[(size_t)(tile.first + index) * a.heads + head] = mine.part[half] * inverse;
        if (!a.output) continue;
        bf16* to = a.output + (size_t)(tile.first + index) * a.output_stride + head * HEAD_SIZE;
#pragma unroll
        for (int block = 0; block < DEPTH / 8; block++)
            if (block * 8 + pair < HEAD_SIZE)
                *(u32*)(to + block * 8 + pair) =
                    pack(mine.mixed[block][2 * half] * inverse, mine.mixed[block][2 * half + 1] * inverse);
    }
}

extern "C" __global__ void __launch_bounds__(TEAMS * THREADS, COMPANY / TEAMS) attention(Attention a) {
    follow();
    attend<false>(a);
}
extern "C" __global__ void __launch_bounds__(TEAMS * THREADS, COMPANY / TEAMS) attention_with_mass(Attention a) {
    follow();
    attend<true>(a);
}

#else

// In f32: a warp for each row; 32 keys at a time, one for each lane.
#define WARPS 8
#define KEYS 32
#define PITCH (HEAD_SIZE + 1)
#define SHARE ((HEAD_SIZE + 31) / 32)

DEVICE void attend(const Attention& a) {
    extern __shared__ float shared[];
    __shared__ float weights[WARPS][KEYS];
    float* keys = shared;
    float* values = keys + KEYS * PITCH;
    float* queries = values + KEYS * PITCH;
    const Tile tile = a.tiles[blockIdx.x];
    if (tile.count == 0) return;
    const u32 head = blockIdx.y, key_head = head * a.key_value_heads / a.heads;
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const Seen seen = seen_by(a, tile, key_head);
    const u32 end = reach_of(a, tile).end;

    for (u32 begin = 0; begin < tile.count; begin += WARPS) {
        const u32 index = begin + warp;
        const bool active = index < tile.count;
        float* query = queries + warp * HEAD_SIZE;
        __syncwarp();
        if (active) {
            const float* from = a.queries + (size_t)(tile.first + index) * a.query_stride + head * HEAD_SIZE;
            for (u32 i = lane; i < HEAD_SIZE; i += 32) query[i] = from[i] * a.scale;
        }
        const Sight sight = sight_of(a, tile, index);
        float mixed[SHARE] = {}, top = -INFINITE, total = 0.0f, part = 0.0f;
        for (u32 first = 0; first < end; first += KEYS) {
            __syncthreads();
            for (u32 i = threadIdx.x; i < KEYS * HEAD_SIZE; i += WARPS * 32) {
                u32 key = i / HEAD_SIZE, column = i % HEAD_SIZE;
                bool there = first + key < end;
                size_t from = (size_t)(first + key) * seen.stride + column;
                keys[key * PITCH + column] = there ? seen.keys[from] : 0.0f;
                values[key * PITCH + column] = there ? seen.values[from] : 0.0f;
            }
            __syncthreads();
            if (!active) continue;

            const u32 key = first + lane;
            const bool visible = is_seen(a, tile, sight, key);
            float score = 0.0f;
            for (u32 i = 0; i < HEAD_SIZE; i++) score += query[i] * keys[lane * PITCH + i];
            if (!visible) score = -INFINITE;
            float best = score;
            for (int offset = 16; offset > 0; offset /= 2) best = fmaxf(best, __shfl_xor_sync(~0u, best, offset));
            best = fmaxf(best, top);
            if (best == -INFINITE) continue;
            const float shrink = expf(top - best);
            top = best;
            const float weight = visible ? expf(score - best) : 0.0f;
            total = total * shrink + warp_sum(weight);
            part = part * shrink + warp_sum(visible ? weight * a.open[tile.open_start + key] : 0.0f);
            weights[warp][lane] = weight;
            __syncwarp();
            for (int i = 0; i < SHARE; i++) mixed[i] *= shrink;
            for (int k = 0; k < KEYS; k++)
                for (int i = 0; i < SHARE; i++)
                    if (lane + 32 * i < HEAD_SIZE) mixed[i] += weights[warp][k] * values[k * PITCH + lane + 32 * i];
        }
        if (!active) continue;
        if (a.mass && lane == 0) a.mass[(size_t)(tile.first + index) * a.heads + head] = part / total;
        if (!a.output) continue;
        float* to = a.output + (size_t)(tile.first + index) * a.output_stride + head * HEAD_SIZE;
        for (int i = 0; i < SHARE; i++)
            if (lane + 32 * i < HEAD_SIZE) to[lane + 32 * i] = mixed[i] / total;
    }
}

KERNEL attention(Attention a) {
    follow();
    attend(a);
}
KERNEL attention_with_mass(Attention a) {
    follow();
    attend(a);
}

#endif
