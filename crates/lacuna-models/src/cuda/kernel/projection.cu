// The vocabulary projection, and beliefs from its tiles: no logit is written to memory that is not wanted there.
//
// One block of threads takes a stretch of the vocabulary and a tile of rows. Every sum runs over k in order, so that a row's
// logits do not depend on the rows it shares a tile with.
//
// Weights are elements, or of eight bits in tiles: of 64 tokens and 64 of k, tile after tile in k, then 64 tokens further, up to whole stretches. A tile
// is twice 16 bytes for each thread of four warps, for 32 of k each: a word for each of its two tokens, which lie eight apart, and each 16 of k. In a word
// are four values, each 128 higher: of k, k + 8, k + 1 and k + 9. What lies behind the last token or k is zero.

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

#define INT8_TILE 64
#define INT8_TILE_BYTES (INT8_TILE * INT8_TILE)

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

struct ElementTokens {
    // Bytes of a slice of a stretch.
    static constexpr u32 BYTES = STRETCH * SLICE * sizeof(bf16);

    static DEVICE float scaled(const Projection&, u32, float sum) { return sum; }

    static DEVICE void fetch(u8* target, const Projection& p, u32 stretch, u32 slice) {
        auto token_of = [&](u32 i) { return stretch * STRETCH + i < p.reading.vocabulary ? stretch * STRETCH + i : ABSENT; };
        fetch_slice<STRETCH>((bf16*)target, (const bf16*)p.weights, p.k, slice * SLICE, token_of);
    }

#if HOPPER

    // sums += a slice of 64 tokens * a slice of all rows, for a group of four warps, asynchronously.
    DEVICE void multiply_slice(float (&sums)[TILE / 8][4], const u8* weights, const bf16* rows) {
        const bf16* mine = (const bf16*)weights + threadIdx.x / 128 * 64 * SLICE;
        begin_products();
#pragma unroll
        for (int k = 0; k < SLICE / 16; k++) multiply(sums, matrix(mine + k * 16), matrix(rows + k * 16), 1);
        commit_products();
    }

    // Waits for all slices but the last.
    static DEVICE void finish_slice() { await_products<1>(); }

#else

    // sums += a slice of 16 tokens * a slice of all rows, for a warp.
    DEVICE void multiply_slice(float (&sums)[TILE / 8][4], const u8* weights, const bf16* rows) {
        const u32 lane = threadIdx.x % 32, token = threadIdx.x / 32 * 16 + lane % 16;
#pragma unroll
        for (u32 k = 0; k < SLICE / 16; k++) {
            u32 a[4];
            load_matrices(a, (const bf16*)weights + swizzled(token, k * 2 + lane / 16));
            multiply_columns<TILE>(sums, a, rows, k * 2);
        }
    }

    static DEVICE void finish_slice() {}

#endif
};

struct Int8Tokens {
    static constexpr u32 BYTES = STRETCH / INT8_TILE * INT8_TILE_BYTES;

    // What the thread gives to products.
    u32 a[SLICE / 16][4];

    static DEVICE float scaled(const Projection& p, u32 token, float sum) { return sum * p.row_scales[min(token, p.reading.vocabulary - 1)]; }

    static DEVICE void fetch(u8* target, const Projection& p, u32 stretch, u32 slice) {
        const size_t band = (size_t)((p.k + INT8_TILE - 1) / INT8_TILE) * INT8_TILE_BYTES;
        const u8* from = (const u8*)p.weights + stretch * (STRETCH / INT8_TILE) * band + slice * INT8_TILE_BYTES;
#pragma unroll
        for (u32 at = threadIdx.x * 16; at < BYTES; at += CREW * 16)
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                         :: "r"(shared_address(target + at)), "l"(from + at / INT8_TILE_BYTES * band + at % INT8_TILE_BYTES), "r"(16));
    }

    // Two values, times 2^-10, which row scales make up for. In the lowest eight bits of a bf16 a whole number is that times 2^-133; the product
    // is with 2^123, and 128 is taken off.
    static DEVICE u32 widen_pair(u32 pair) { return multiply_add_pair(pair & 0x00ff00ff, 0x7d007d00, 0xbe00be00); }

    // sums += a slice of 64 tokens * a slice of all rows, for a group of four warps; on Hopper asynchronously.
    DEVICE void multiply_slice(float (&sums)[TILE / 8][4], const u8* weights, const bf16* rows) {
        const u8* mine = weights + threadIdx.x / 128 * INT8_TILE_BYTES + threadIdx.x % 128 * 16;
#pragma unroll
        for (u32 half = 0; half < 2; half++) {
            const Words words = *(const Words*)(mine + half * (INT8_TILE_BYTES / 2));
#pragma unroll
            for (u32 i = 0; i < 4; i++) {
                a[half * 2 + i / 2][i % 2] = widen_pair(words.at[i]);
                a[half * 2 + i / 2][i % 2 + 2] = widen_pair(words.at[i] >> 8);
            }
        }
        begin_products();
#pragma unroll
        for (u32 k = 0; k < SLICE / 16; k++) multiply_columns<TILE>(sums, a[k], rows, k * 2);
        commit_products();
    }

    static DEVICE void finish_slice() { await_products<0>(); }
};

// Writes the sums of all warps to a tile: [row][weight], TILE_PITCH apart.
template <typename Tokens> DEVICE void spread_sums(const Projection& p, const float (&sums)[TILE / 8][4], u32 stretch, float* tile) {
    const u32 lane = threadIdx.x % 32, token = threadIdx.x / 32 * 16 + lane / 4;
#pragma unroll
    for (int block = 0; block < TILE / 8; block++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const u32 its = token + i / 2 * 8;
            tile[(block * 8 + lane % 4 * 2 + i % 2) * TILE_PITCH + its] = Tokens::scaled(p, stretch * STRETCH + its, sums[block][i]);
        }
}

template <typename Tokens> DEVICE void project_tile(const Projection& p) {
    extern __shared__ __align__(16) u8 room[];
    // The permutation counts from multiples of 1024 bytes.
    u8* stages = room + -shared_address(room) % 1024;
    const u32 first = blockIdx.x * TILE, stretch = blockIdx.y, slices = (p.k + SLICE - 1) / SLICE;
    if (!is_read_from(p.reading, first)) return;
    auto row_of = [&](u32 i) { return first + i < p.reading.rows ? first + i : ABSENT; };
    auto stage = [&](u32 slice) { return stages + slice % STAGES * (Tokens::BYTES + TILE * SLICE * sizeof(bf16)); };
    auto load = [&](u32 slice) {
        if (slice < slices) {
            Tokens::fetch(stage(slice), p, stretch, slice);
            fetch_slice<TILE>((bf16*)(stage(slice) + Tokens::BYTES), p.input, p.k, slice * SLICE, row_of);
        }
        commit();
    };
    Tokens tokens;
    float sums[TILE / 8][4] = {};
    for (u32 slice = 0; slice < STAGES - 2; slice++) load(slice);
    for (u32 slice = 0; slice < slices; slice++) {
        arrive<STAGES - 3>();
        tokens.multiply_slice(sums, stage(slice), (const bf16*)(stage(slice) + Tokens::BYTES));
        // Into the stage that was multiplied two slices ago.
        load(slice + STAGES - 2);
        tokens.finish_slice();
    }
#if HOPPER
    finish_products();
#endif
    __syncthreads();

    float* tile = (float*)stages;
    spread_sums<Tokens>(p, sums, stretch, tile);
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

struct ElementTokens {
    static DEVICE float weight(const Projection& p, u32 token, u32 k) { return ((const float*)p.weights)[(size_t)token * p.k + k]; }
};

struct Int8Tokens {
    static DEVICE float weight(const Projection& p, u32 token, u32 k) {
        const u32 row = token % INT8_TILE, column = k % INT8_TILE, thread = row / 16 * 32 + row % 8 * 4 + column % 8 / 2;
        const u32 word = column / 16 % 2 * 2 + row % 16 / 8, byte = column % 2 * 2 + column % 16 / 8;
        const size_t tile = (size_t)(token / INT8_TILE) * ((p.k + INT8_TILE - 1) / INT8_TILE) + k / INT8_TILE;
        const u8* its = (const u8*)p.weights + tile * INT8_TILE_BYTES + column / 32 * (INT8_TILE_BYTES / 2);
        return ((float)its[thread * 16 + word * 4 + byte] - 128.0f) / 1024.0f * p.row_scales[token];
    }
};

template <typename Tokens> DEVICE void project_tile(const Projection& p) {
    extern __shared__ float tile[];
    const u32 first = blockIdx.x * TILE, stretch = blockIdx.y;
    if (!is_read_from(p.reading, first)) return;
    auto input = [&](u32 i, u32 k) { return first + i < p.reading.rows ? p.input[(size_t)(first + i) * p.k + k] : 0.0f; };
    auto weight = [&](u32 i, u32 k) {
        const u32 token = stretch * STRETCH + i;
        return token < p.reading.vocabulary ? Tokens::weight(p, token, k) : 0.0f;
    };
    add_products(tile, p.k, input, weight);
    __syncthreads();
    make_beliefs(p.reading, first, stretch, tile);
}

#endif

KERNEL __launch_bounds__(CREW, BF16 ? 2 : 1) project(Projection p) { project_tile<ElementTokens>(p); }
KERNEL __launch_bounds__(CREW, BF16 ? 2 : 1) project_int8(Projection p) { project_tile<Int8Tokens>(p); }
