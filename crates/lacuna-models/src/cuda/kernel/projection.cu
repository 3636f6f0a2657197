// The vocabulary projection, and beliefs from its tiles: no logit is written to memory that is not wanted there.
//
// One block of threads takes a stretch of the vocabulary and a tile of rows. Every sum runs over k in order, so that a row's
// logits do not depend on the rows it shares a tile with, nor on the width of the tile.

struct Projection {
    const element* input;    // [row][k]
    const element* weights;  // [token][k]
    Reading reading;
    u32 k;
};

#define CREW 256
// From one row of a tile to the next in shared memory: so that neither threads that write it nor those that read it collide.
#define TILE_PITCH (STRETCH + 4)

// What becomes of a tile of logits in shared memory, ROWS rows from number `first` on: a warp takes a row.
template <u32 ROWS> DEVICE void make_beliefs(const Reading& r, u32 first, u32 stretch, const float* tile) {
    const u32 lane = threadIdx.x % 32;
    for (u32 index = threadIdx.x / 32; index < ROWS && first + index < r.rows; index += CREW / 32) {
        const u32 row = first + index;
        const Look look = r.looks[row];
        float logits[EACH];
#pragma unroll
        for (int i = 0; i < EACH; i++) logits[i] = tile[index * TILE_PITCH + lane + i * 32];
        if (look.guide == ~0u && !look.silent) {
            sum_up(r, row, look, stretch, logits);
            continue;
        }
        for (int i = 0; i < EACH; i++) {
            const u32 token = stretch * STRETCH + lane + i * 32;
            if (token < r.vocabulary) look.logits[token] = logits[i];
        }
    }
}

#if BF16

#define SLICE 64  // of k: 128 bytes of a row

// Starts copying a slice of ROWS rows; what lies behind row `end` or column k becomes zero.
template <u32 ROWS> DEVICE void fetch_slice(bf16* target, const bf16* source, u32 k, u32 first, u32 end, u32 column) {
#pragma unroll
    for (u32 piece = threadIdx.x; piece < ROWS * 8; piece += CREW) {
        const u32 row = piece / 8, at = column + piece % 8 * 8;
        const bool there = first + row < end && at < k;
        const bf16* from = source + (there ? (size_t)(first + row) * k + at : 0);
        bf16* to = target + swizzled(row, piece % 8);
        if (k % 8 == 0) {
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                         :: "r"(shared_address(to)), "l"(from), "r"(there ? 16 : 0));
        } else {
            for (u32 i = 0; i < 8; i++) to[i] = there && at + i < k ? from[i] : bf16{0};
        }
    }
}

#if HOPPER

// sums += a slice of 64 tokens * a slice of ROWS rows, for a group of four warps; the slice before is done then.
template <u32 ROWS> DEVICE void multiply_slice(float (&sums)[ROWS / 8][4], const bf16* weights, const bf16* rows) {
    const bf16* mine = weights + threadIdx.x / 128 * 64 * SLICE;
    begin_products();
#pragma unroll
    for (int k = 0; k < SLICE / 16; k++) multiply(sums, matrix(mine + k * 16), matrix(rows + k * 16), 1);
    asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 1;" ::: "memory");
}

#else

// sums += a slice of 16 tokens * a slice of ROWS rows, for a warp.
template <u32 ROWS> DEVICE void multiply_slice(float (&sums)[ROWS / 8][4], const bf16* weights, const bf16* rows) {
    const u32 lane = threadIdx.x % 32, token = threadIdx.x / 32 * 16 + lane % 16;
    const u32 row = lane / 16 * 8 + lane % 8;
#pragma unroll
    for (int k = 0; k < SLICE / 16; k++) {
        u32 a[4];
        load_matrices(a, weights + swizzled(token, k * 2 + lane / 16));
#pragma unroll
        for (int block = 0; block < ROWS / 8; block += 2) {
            u32 b[4];
            load_matrices(b, rows + swizzled(block * 8 + row, k * 2 + lane / 8 % 2));
            multiply(sums[block], a, b[0], b[1]);
            multiply(sums[block + 1], a, b[2], b[3]);
        }
    }
}

#endif

template <u32 ROWS, u32 STAGES> DEVICE void project(const Projection& p) {
    extern __shared__ __align__(16) bf16 shared[];
    // The permutation counts from multiples of 1024 bytes.
    bf16* stages = shared + -shared_address(shared) % 1024 / 2;
    const u32 first = blockIdx.x * ROWS, stretch = blockIdx.y, slices = (p.k + SLICE - 1) / SLICE;
    auto stage = [&](u32 slice) { return stages + slice % STAGES * (STRETCH + ROWS) * SLICE; };
    auto load = [&](u32 slice) {
        if (slice < slices) {
            bf16* target = stage(slice);
            fetch_slice<STRETCH>(target, p.weights, p.k, stretch * STRETCH, p.reading.vocabulary, slice * SLICE);
            fetch_slice<ROWS>(target + STRETCH * SLICE, p.input, p.k, first, p.reading.rows, slice * SLICE);
        }
        commit();
    };
    float sums[ROWS / 8][4] = {};
    for (u32 slice = 0; slice < STAGES - 2; slice++) load(slice);
    for (u32 slice = 0; slice < slices; slice++) {
        arrive<STAGES - 3>();
        // Into the stage that was multiplied two slices ago: the last one may not be done yet.
        load(slice + STAGES - 2);
        multiply_slice<ROWS>(sums, stage(slice), stage(slice) + STRETCH * SLICE);
    }
#if HOPPER
    finish_products();
#endif
    __syncthreads();

    float* tile = (float*)stages;
    const u32 lane = threadIdx.x % 32, token = threadIdx.x / 32 * 16 + lane / 4;
#pragma unroll
    for (int block = 0; block < ROWS / 8; block++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            tile[(block * 8 + lane % 4 * 2 + i % 2) * TILE_PITCH + token + i / 2 * 8] = sums[block][i];
    __syncthreads();
    make_beliefs<ROWS>(p.reading, first, stretch, tile);
}

// Few rows: bound by reading the weights.
KERNEL __launch_bounds__(CREW, 2) project_few(Projection p) { project<64, 4>(p); }

// Many: bound by products, so tiles are as large as registers allow.
#if HOPPER
KERNEL __launch_bounds__(CREW, 1) project_many(Projection p) { project<256, 4>(p); }
#else
KERNEL __launch_bounds__(CREW, 1) project_many(Projection p) { project<128, 3>(p); }
#endif

#else

// In f32: a thread computes four rows by eight tokens.
DEVICE void project(const Projection& p) {
    extern __shared__ float tile[];
    __shared__ __align__(16) float input[RUN][64 + 4], weights[RUN][STRETCH + 4];
    const u32 first = blockIdx.x * 64, stretch = blockIdx.y;
    const u32 my_row = threadIdx.x / 16 * 4, my_token = threadIdx.x % 16 * 8;
    float sums[4][8] = {};
    for (u32 first_k = 0; first_k < p.k; first_k += RUN) {
        for (u32 index = threadIdx.x; index < STRETCH * RUN; index += CREW) {
            const u32 line = index / RUN, at = first_k + index % RUN;
            const u32 row = first + line, token = stretch * STRETCH + line;
            weights[index % RUN][line] = at < p.k && token < p.reading.vocabulary ? p.weights[(size_t)token * p.k + at] : 0.0f;
            if (line < 64) input[index % RUN][line] = at < p.k && row < p.reading.rows ? p.input[(size_t)row * p.k + at] : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < RUN; k++)
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 8; j++) sums[i][j] += input[k][my_row + i] * weights[k][my_token + j];
        __syncthreads();
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 8; j++) tile[(my_row + i) * TILE_PITCH + my_token + j] = sums[i][j];
    __syncthreads();
    make_beliefs<64>(p.reading, first, stretch, tile);
}

KERNEL __launch_bounds__(CREW) project_few(Projection p) { project(p); }
KERNEL __launch_bounds__(CREW) project_many(Projection p) { project(p); }

#endif
