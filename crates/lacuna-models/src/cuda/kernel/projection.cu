// The vocabulary projection, and beliefs from its tiles: no logit is written to memory that is not wanted there.
//
// One block of threads takes a stretch of the vocabulary and a tile of rows. Every sum runs over k in order, so that a row's
// logits do not depend on the rows it shares a tile with.

#define CREW 256
#define TILE PROJECTION_TILE
// From one row of a tile of logits to the next in shared memory: so that threads that take neighbouring rows use different banks.
#define TILE_PITCH (STRETCH + 5)

// True if a row of the tile is read; for a whole warp.
DEVICE bool is_read_from(const Reading& r, u32 first) {
    bool any = r.round == 1;
    for (u32 row = first + threadIdx.x % 32; !any && row < min(first + TILE, r.rows); row += 32) any = is_read(r, row);
    return __any_sync(~0u, any);
}

// Sums up a tile of logits in shared memory, whose first row is row `first`. Four threads share a row.
DEVICE void make_beliefs(const Reading& r, u32 first, u32 stretch, float* tile) {
    const u32 index = threadIdx.x / 4, segment = threadIdx.x % 4, row = first + index;
    const RowSpec spec = r.specs[min(row, r.rows - 1)];
    const bool wanted = row < r.rows && spec.guide == ABSENT && !spec.logits_only;
    Summary sum = NOTHING;
    if (wanted) sum = sum_up(r, row, spec, stretch, segment, tile + index * TILE_PITCH + segment * SEGMENT);
    sum = whole_stretch(sum);
    if (wanted && segment == 0) r.parts[(size_t)row * r.stretches + stretch] = sum;

    __syncthreads();
    for (u32 index = threadIdx.x / 32; index < TILE && first + index < r.rows; index += CREW / 32) {
        float* logits = r.specs[first + index].logits;
        if (!logits) continue;
        for (u32 i = threadIdx.x % 32; i < STRETCH && stretch * STRETCH + i < r.vocabulary; i += 32)
            logits[stretch * STRETCH + i] = tile[index * TILE_PITCH + i];
    }
}

#if BF16

#define SLICE 64  // of k: 128 bytes of a row
#define STAGES 4

// Starts copying a slice of ROWS rows, of which row i is row `index(i)` of the source; what is ABSENT or lies behind column k becomes
// zero.
template <u32 ROWS, typename Index>
DEVICE void fetch_slice(bf16* target, const bf16* source, u32 k, u32 column, Index index) {
    const u32 piece = threadIdx.x % 8, at = column + piece * 8;
#pragma unroll
    for (u32 i = 0; i < ROWS / (CREW / 8); i++) {
        const u32 row = threadIdx.x / 8 + i * (CREW / 8);
        const u32 its = index(row);
        const bool there = its != ABSENT && at < k;
        const bf16* from = source + (there ? (size_t)its * k + at : 0);
        bf16* to = target + swizzled(row, piece);
        if (k % 8 == 0) {
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                         :: "r"(shared_address(to)), "l"(from), "r"(there ? 16 : 0));
        } else {
            for (u32 j = 0; j < 8; j++) to[j] = there && at + j < k ? from[j] : bf16{0};
        }
    }
}

// Writes the sums of all warps to a tile: [row][weight], TILE_PITCH apart.
DEVICE void spread_sums(const float (&sums)[TILE / 8][4], float* tile) {
    const u32 lane = threadIdx.x % 32, token = threadIdx.x / 32 * 16 + lane / 4;
#pragma unroll
    for (int block = 0; block < TILE / 8; block++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            tile[(block * 8 + lane % 4 * 2 + i % 2) * TILE_PITCH + token + i / 2 * 8] = sums[block][i];
}

#if HOPPER

// sums += a slice of 64 tokens * a slice of all rows, for a group of four warps, asynchronously.
DEVICE void multiply_slice(float (&sums)[TILE / 8][4], const bf16* weights, const bf16* rows) {
    const bf16* mine = weights + threadIdx.x / 128 * 64 * SLICE;
    begin_products();
#pragma unroll
    for (int k = 0; k < SLICE / 16; k++) multiply(sums, matrix(mine + k * 16), matrix(rows + k * 16), 1);
    commit_products();
}

// Waits for all slices but the last.
DEVICE void finish_slice() { await_products<1>(); }

#else

// sums += a slice of 16 weights * a slice of all rows, for a warp.
DEVICE void multiply_slice(float (&sums)[TILE / 8][4], const bf16* weights, const bf16* rows) {
    const u32 lane = threadIdx.x % 32, token = threadIdx.x / 32 * 16 + lane % 16;
    const u32 row = lane / 16 * 8 + lane % 8;
#pragma unroll
    for (int k = 0; k < SLICE / 16; k++) {
        u32 a[4];
        load_matrices(a, weights + swizzled(token, k * 2 + lane / 16));
#pragma unroll
        for (int block = 0; block < TILE / 8; block += 2) {
            u32 b[4];
            load_matrices(b, rows + swizzled(block * 8 + row, k * 2 + lane / 8 % 2));
            multiply(sums[block], a, b[0], b[1]);
            multiply(sums[block + 1], a, b[2], b[3]);
        }
    }
}

DEVICE void finish_slice() {}

#endif

KERNEL __launch_bounds__(CREW, 2) project(Projection p) {
    extern __shared__ __align__(16) bf16 room[];
    // The permutation counts from multiples of 1024 bytes.
    bf16* stages = room + -shared_address(room) % 1024 / 2;
    const u32 first = blockIdx.x * TILE, stretch = blockIdx.y, slices = (p.k + SLICE - 1) / SLICE;
    if (!is_read_from(p.reading, first)) return;
    auto token_of = [&](u32 i) { return stretch * STRETCH + i < p.reading.vocabulary ? stretch * STRETCH + i : ABSENT; };
    auto row_of = [&](u32 i) { return first + i < p.reading.rows ? first + i : ABSENT; };
    auto stage = [&](u32 slice) { return stages + slice % STAGES * (STRETCH + TILE) * SLICE; };
    auto load = [&](u32 slice) {
        if (slice < slices) {
            bf16* target = stage(slice);
            fetch_slice<STRETCH>(target, p.weights, p.k, slice * SLICE, token_of);
            fetch_slice<TILE>(target + STRETCH * SLICE, p.input, p.k, slice * SLICE, row_of);
        }
        commit();
    };
    float sums[TILE / 8][4] = {};
    for (u32 slice = 0; slice < STAGES - 2; slice++) load(slice);
    for (u32 slice = 0; slice < slices; slice++) {
        arrive<STAGES - 3>();
        multiply_slice(sums, stage(slice), stage(slice) + STRETCH * SLICE);
        // Into the stage that was multiplied two slices ago.
        load(slice + STAGES - 2);
        finish_slice();
    }
#if HOPPER
    finish_products();
#endif
    __syncthreads();

    float* tile = (float*)stages;
    spread_sums(sums, tile);
    __syncthreads();
    make_beliefs(p.reading, first, stretch, tile);
}

#else

// Products of a tile of rows with STRETCH rows of weights, written to [row][weight], TILE_PITCH apart: `input(i, k)` is a value of
// row i, `weight(i, k)` one of weight i. A thread computes four rows by eight weights.
template <typename Input, typename Weight> DEVICE void add_products(float* tile, u32 k, Input input, Weight weight) {
    __shared__ __align__(16) float rows[RUN][TILE + 4], columns[RUN][STRETCH + 4];
    const u32 my_row = threadIdx.x / 16 * 4, my_column = threadIdx.x % 16 * 8;
    float sums[4][8] = {};
    for (u32 first_k = 0; first_k < k; first_k += RUN) {
        for (u32 index = threadIdx.x; index < STRETCH * RUN; index += CREW) {
            const u32 line = index / RUN, at = first_k + index % RUN;
            columns[index % RUN][line] = at < k ? weight(line, at) : 0.0f;
            if (line < TILE) rows[index % RUN][line] = at < k ? input(line, at) : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int at = 0; at < RUN; at++)
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 8; j++) sums[i][j] += rows[at][my_row + i] * columns[at][my_column + j];
        __syncthreads();
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 8; j++) tile[(my_row + i) * TILE_PITCH + my_column + j] = sums[i][j];
}

KERNEL __launch_bounds__(CREW) project(Projection p) {
    extern __shared__ float tile[];
    const u32 first = blockIdx.x * TILE, stretch = blockIdx.y;
    if (!is_read_from(p.reading, first)) return;
    auto input = [&](u32 i, u32 k) { return first + i < p.reading.rows ? p.input[(size_t)(first + i) * p.k + k] : 0.0f; };
    auto weight = [&](u32 i, u32 k) {
        const u32 token = stretch * STRETCH + i;
        return token < p.reading.vocabulary ? p.weights[(size_t)token * p.k + k] : 0.0f;
    };
    add_products(tile, p.k, input, weight);
    __syncthreads();
    make_beliefs(p.reading, first, stretch, tile);
}

#endif
