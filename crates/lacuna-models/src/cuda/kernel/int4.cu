// Products with weights of four bits. They are widened to bf16 in registers, as the int8 values that they are, and
// multiplied on tensor cores; the row scales come last.
//
// Weights lie in tiles of 64 rows by 64 of k, those of 64 rows one behind the other. A tile has 16 bytes for each thread of four warps: a word for
// each 16 of k, with the values that the thread gives to tensor cores. From the lowest four bits on, these are of its first row, of the row eight
// below, and of both rows eight of k further; the upper half of the word has their neighbours in k. Behind the values are the groups of 32: a word for each
// thread that begins rows, in each half of it the zero points of both rows, then both scales - 1. What lies behind the last row or k is zero.
//
// A block of threads has four teams of four warps. k is cut into as many parts as there are teams in all of the blocks that share a sum
// (`splits`). A sum runs over the k of its part in order, then over parts in order: it does not depend on the rows that are computed with it.

#define INT4_TILE 64
#define INT4_VALUE_BYTES (INT4_TILE * INT4_TILE / 2)
#define INT4_TILE_BYTES (INT4_VALUE_BYTES + INT4_TILE * INT4_TILE / 32)

#if BF16

#define INT4_TEAMS 4
#define INT4_THREADS (INT4_TEAMS * 128)
#define INT4_MOST_SPLITS 4

// One half of a pair twice; it costs nothing where it is used.
template <u32 HALF> DEVICE u32 both_halves(u32 pair) {
    u32 both;
    if (HALF == 0)
        asm("{.reg .b16 low, high; mov.b32 {low, high}, %1; mov.b32 %0, {low, low};}" : "=r"(both) : "r"(pair), "n"(0));
    else
        asm("{.reg .b16 low, high; mov.b32 {low, high}, %1; mov.b32 %0, {high, high};}" : "=r"(both) : "r"(pair), "n"(1));
    return both;
}

// Scales and zero points of a thread's two rows, as pairs of bf16: of two groups, or of one in both halves.
struct Int4Groups {
    u32 scale[2], offset[2];

    template <u32 GROUP> DEVICE Int4Groups of() const {
        return {{both_halves<GROUP>(scale[0]), both_halves<GROUP>(scale[1])}, {both_halves<GROUP>(offset[0]), both_halves<GROUP>(offset[1])}};
    }
};

// A value in the lowest eight bits of a bf16 is that whole number times 2^-133, so (value - zero) * scale takes one multiply-add: with
// scales times 2^123, or 2^119 for the upper four bits, it is exact and times 2^-10, which row scales make up for.
DEVICE Int4Groups int4_groups(u32 word) {
    // 2^127 + (scale - 1) * 2^123, and from that 15 * 2^123.
    const u32 low = multiply_add_pair((word >> 5 & 0x00780078) | 0x7f007f00, 0x3f803f80, 0xfef0fef0);
    const u32 high = multiply_add_pair((word >> 9 & 0x00780078) | 0x7d007d00, 0x3f803f80, 0xfcf0fcf0);
    return {{low, high},
            {multiply_add_pair((word & 0x000f000f) | 0x80008000, low, 0x80008000),
             multiply_add_pair((word & 0x00f000f0) | 0x80008000, high, 0x80008000)}};
}

// What a thread gives to a product: the weights of a word.
DEVICE void widen_int4(u32 (&a)[4], u32 word, const Int4Groups& its) {
#pragma unroll
    for (u32 i = 0; i < 4; i++)
        a[i] = multiply_add_pair(word >> i / 2 * 8 & (i % 2 ? 0x00f000f0 : 0x000f000f), its.scale[i % 2], its.offset[i % 2]);
}

DEVICE float sum(float x, float y) { return x + y; }
DEVICE float4 sum(float4 x, float4 y) { return make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w); }
DEVICE float scaled(float x, float y) { return x * y; }
DEVICE float4 scaled(float4 x, float4 y) { return make_float4(x.x * y.x, x.y * y.y, x.z * y.z, x.w * y.w); }
DEVICE void narrow(float4 x, element* y) { narrow4(x, y); }

#define INT4_PITCH(tiles) ((tiles) * INT4_TILE + 4)  // from one row of sums to the next: so that a warp uses all banks

// A place of an output, and of its sums.
struct Int4Place {
    u32 row, column, n;
    size_t at;
    bool there;
};

// Writes the values of all places of a block, a V of neighbouring columns at a time. Everything that TURNS of them need is read before the first is written.
template <u32 ROWS, u32 TILES, typename V, typename Value, typename Write>
DEVICE void for_each_place(const Int4Product& p, u32 first_tile, u32 first_m, Value value, Write write) {
    constexpr u32 WIDTH = sizeof(V) / sizeof(float), COLUMNS = TILES * INT4_TILE / WIDTH;
    constexpr u32 TURNS = (ROWS * TILES * INT4_TILE / 4 + INT4_THREADS - 1) / INT4_THREADS;
    for (u32 begin = threadIdx.x; begin < ROWS * COLUMNS; begin += TURNS * INT4_THREADS) {
        Int4Place places[TURNS];
        V values[TURNS];
#pragma unroll
        for (u32 i = 0; i < TURNS; i++) {
            const u32 index = begin + i * INT4_THREADS, row = index / COLUMNS % ROWS, column = index % COLUMNS * WIDTH;
            const u32 m = first_m + row, n = first_tile * INT4_TILE + column - p.first;
            const bool there = index < ROWS * COLUMNS && m < p.m && n < p.n;
            places[i] = {row, column, there ? n : 0, there ? (size_t)m * p.n + n : 0, there};
            values[i] = value(places[i]);
        }
#pragma unroll
        for (u32 i = 0; i < TURNS; i++)
            if (places[i].there) write(places[i].at, values[i]);
    }
}

// Adds up the sums of all teams, and of all blocks of threads that share them, and writes them.
template <u32 ROWS, u32 TILES, typename V>
DEVICE void finish_int4(const Int4Product& p, const float* parts, u32 split, u32 first_tile, u32 first_m) {
    auto of_teams = [&](const Int4Place& place) {
        auto of = [&](u32 team) { return *(const V*)(parts + (team * ROWS + place.row) * INT4_PITCH(TILES) + place.column); };
        V all = of(0);
#pragma unroll
        for (u32 team = 1; team < INT4_TEAMS; team++) all = sum(all, of(team));
        return all;
    };
    auto finished = [&](const Int4Place& place, V all) {
        all = scaled(all, *(const V*)(p.row_scales + place.n));
        return p.add ? sum(*(const V*)((const float*)p.output + place.at), all) : all;
    };
    auto put = [&](size_t at, V all) {
        if (p.output_is_f32)
            *(V*)((float*)p.output + at) = all;
        else
            narrow(all, (element*)p.output + at);
    };
    if (p.splits == 1) {
        auto whole = [&](const Int4Place& place) { return finished(place, of_teams(place)); };
        for_each_place<ROWS, TILES, V>(p, first_tile, first_m, whole, put);
        return;
    }
    const size_t size = (size_t)p.m * p.n;
    auto keep = [&](size_t at, V all) { *(V*)(p.parts + split * size + at) = all; };
    for_each_place<ROWS, TILES, V>(p, first_tile, first_m, of_teams, keep);
    // The last of the blocks that share sums adds them up.
    __threadfence();
    __syncthreads();
    u32* order = (u32*)parts;
    u32* arrived = p.arrived + blockIdx.y * (gridDim.x / p.splits) + blockIdx.x / p.splits;
    if (threadIdx.x == 0) *order = atomicAdd(arrived, 1u);
    __syncthreads();
    if (*order != p.splits - 1) return;
    __threadfence();
    auto of_blocks = [&](const Int4Place& place) {
        auto of = [&](u32 split) { return __ldcg((const V*)(p.parts + min(split, p.splits - 1) * size + place.at)); };
        const V parts[INT4_MOST_SPLITS] = {of(0), of(1), of(2), of(3)};
        V all = parts[0];
#pragma unroll
        for (u32 split = 1; split < INT4_MOST_SPLITS; split++)
            if (split < p.splits) all = sum(all, parts[split]);
        return finished(place, all);
    };
    for_each_place<ROWS, TILES, V>(p, first_tile, first_m, of_blocks, put);
    if (threadIdx.x == 0) *arrived = 0;
}

// ROWS rows by 64 * TILES columns, of one of the splits of k.
template <u32 ROWS, u32 TILES> DEVICE void multiply_tiles(const Int4Product& p) {
    extern __shared__ __align__(16) u8 int4_room[];
    constexpr u32 ROW_STAGE = ROWS * 64, WEIGHT_STAGE = TILES * INT4_TILE_BYTES, SETS = TILES > 1 ? 2 : 1;
    const u32 team = threadIdx.x / 128, thread = threadIdx.x % 128, warp = thread / 32, lane = threadIdx.x % 32;
    const u32 split = blockIdx.x % p.splits, first_tile = blockIdx.x / p.splits * TILES, first_m = blockIdx.y * ROWS;
    const u32 slices = (p.k + 63) / 64, tiles = (p.first + p.n + INT4_TILE - 1) / INT4_TILE;
    const u32 share = (slices + p.splits * INT4_TEAMS - 1) / (p.splits * INT4_TEAMS), begin = (split * INT4_TEAMS + team) * share;
    const u32 steps = begin < slices ? min(share, slices - begin) : 0;
    // The permutation counts from multiples of 1024 bytes.
    u8* room = int4_room + (HOPPER ? -shared_address(int4_room) % 1024 : 0);
    bf16* rows = (bf16*)room + team * INT4_STAGES * ROW_STAGE;
    u8* weights = room + INT4_TEAMS * INT4_STAGES * ROW_STAGE * sizeof(bf16) + team * INT4_STAGES * WEIGHT_STAGE;

    const u8* tile[TILES];
#pragma unroll
    for (u32 t = 0; t < TILES; t++)
        tile[t] = p.weights + ((size_t)min(first_tile + t, tiles - 1) * slices + begin) * INT4_TILE_BYTES;
    auto copy = [](void* to, const void* from, u32 bytes) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(shared_address(to)), "l"(from), "r"(bytes));
    };
    auto load_weights = [&](u32 step) {
        u8* to = weights + step % INT4_STAGES * WEIGHT_STAGE;
#pragma unroll
        for (u32 t = 0; t < TILES; t++) {
            const u32 at = t * INT4_TILE_BYTES, mine = thread * 16;
            copy(to + at + mine, tile[t] + mine, 16);
            if (thread / 8 == t) copy(to + at + INT4_VALUE_BYTES + mine % 128, tile[t] + INT4_VALUE_BYTES + mine % 128, 16);
            tile[t] += INT4_TILE_BYTES;
        }
    };
    auto load_rows = [&](u32 step) {
        const u32 piece = thread % 8, at = (begin + step) * 64 + piece * 8;
#pragma unroll
        for (u32 i = 0; i < ROWS / 16; i++) {
            const u32 row = i * 16 + thread / 8, m = first_m + row;
            const bool there = m < p.m && at < p.k;
            const bf16* from = p.input + (there ? (size_t)m * p.k + at : 0);
            bf16* to = rows + step % INT4_STAGES * ROW_STAGE + swizzled(row, piece);
            if (p.k % 8 == 0)
                copy(to, from, there ? 16 : 0);
            else
                for (u32 j = 0; j < 8; j++) to[j] = there && at + j < p.k ? from[j] : bf16{0};
        }
    };
    // Two stages are free when a step begins, for the products of the last step may still run.
    constexpr u32 AHEAD = INT4_STAGES - 2;
    for (u32 step = 0; step < AHEAD; step++)
        if (step < steps) load_weights(step);
    follow();
    for (u32 step = 0; step < AHEAD; step++) {
        if (step < steps) load_rows(step);
        commit();
    }
    float sums[TILES][ROWS / 8][4] = {};
    for (u32 step = 0; step < steps; step++) {
        arrive_team<AHEAD - 1>(team);
        if (step + AHEAD < steps) {
            load_weights(step + AHEAD);
            load_rows(step + AHEAD);
        }
        commit();
        const bf16* slice = rows + step % INT4_STAGES * ROW_STAGE;
        const u8* stage = weights + step % INT4_STAGES * WEIGHT_STAGE;
        u32 a[SETS][4][4];
#pragma unroll
        for (u32 t = 0; t < TILES; t++) {
            const u8* its = stage + t * INT4_TILE_BYTES;
            const Words words = *(const Words*)(its + thread * 16);
            const Int4Groups groups = int4_groups(*(const u32*)(its + INT4_VALUE_BYTES + (warp * 8 + lane / 4) * 4));
            // Those that read the same registers.
            if (t == 0)
                await_products<(TILES - 1) % SETS>();
            else
                await_products<SETS - 1>();
#pragma unroll
            for (u32 i = 0; i < 2; i++) {
                widen_int4(a[t % SETS][i], words.at[i], groups.of<0>());
                widen_int4(a[t % SETS][i + 2], words.at[i + 2], groups.of<1>());
            }
            begin_products();
#pragma unroll
            for (u32 i = 0; i < 4; i++) multiply_columns<ROWS>(sums[t], a[t % SETS][i], slice, i * 2);
            commit_products();
        }
    }
    await_products<0>();
    arrive<0>();
    // The sums of all teams: [team][row][column].
    float* parts = (float*)room;
#pragma unroll
    for (u32 t = 0; t < TILES; t++)
#pragma unroll
        for (u32 i = 0; i < ROWS / 2; i++) {
            const u32 row = i / 4 * 8 + lane % 4 * 2 + i % 2, column = t * INT4_TILE + warp * 16 + lane / 4 + i % 4 / 2 * 8;
            parts[(team * ROWS + row) * INT4_PITCH(TILES) + column] = sums[t][i / 4][i % 4];
        }
    __syncthreads();
    if ((p.n | p.first) % 4 == 0)
        finish_int4<ROWS, TILES, float4>(p, parts, split, first_tile, first_m);
    else
        finish_int4<ROWS, TILES, float>(p, parts, split, first_tile, first_m);
}

KERNEL __launch_bounds__(INT4_THREADS, 1) product_int4(Int4Product p) {
    switch (p.rows * 4 + p.tiles) {
        case 16 * 4 + 1: return multiply_tiles<16, 1>(p);
        case 32 * 4 + 1: return multiply_tiles<32, 1>(p);
#if HOPPER
        case 16 * 4 + 2: return multiply_tiles<16, 2>(p);
        case 16 * 4 + 3: return multiply_tiles<16, 3>(p);
        case 32 * 4 + 2: return multiply_tiles<32, 2>(p);
        case 32 * 4 + 3: return multiply_tiles<32, 3>(p);
        case 64 * 4 + 1: return multiply_tiles<64, 1>(p);
        case 64 * 4 + 2: return multiply_tiles<64, 2>(p);
#endif
        default: __trap();
    }
}

#else

// Weight k of a row, of rows of `width`.
DEVICE float int4_weight(const u8* weights, u32 width, size_t n, u32 k) {
    const u32 row = n % INT4_TILE, its = row / 16 * 8 + row % 8, half = row % 16 / 8 * 4;
    const u8* tile = weights + (n / INT4_TILE * ((width + 63) / 64) + k / INT4_TILE) * INT4_TILE_BYTES;
    const u8 value = tile[its * 64 + k % 8 / 2 * 16 + k % INT4_TILE / 16 * 4 + k % 2 * 2 + k % 16 / 8] >> half & 15;
    const u8* group = tile + INT4_VALUE_BYTES + its * 4 + k % INT4_TILE / 32 * 2;
    return (float)((value - (group[0] >> half & 15)) * ((group[1] >> half & 15) + 1)) / 1024.0f;
}

// In f32, which no model uses it in: the plain sum.
KERNEL product_int4(Int4Product p) {
    follow();
    const u32 m = blockIdx.y, n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= p.n) return;
    float sum = 0.0f;
    for (u32 k = 0; k < p.k; k++) sum += p.input[(size_t)m * p.k + k] * int4_weight(p.weights, p.k, p.first + n, k);
    sum *= p.row_scales[n];
    const size_t at = (size_t)m * p.n + n;
    if (p.output_is_f32)
        ((float*)p.output)[at] = p.add ? ((float*)p.output)[at] + sum : sum;
    else
        narrow(sum, (element*)p.output + at);
}

#endif
