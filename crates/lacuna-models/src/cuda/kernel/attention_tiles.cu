// Tensor cores, as attention uses them: scores of 64 queries with 64 keys, and sums of 64 values weighted by those. Queries,
// keys and values lie in stages of shared memory.
#if BF16

#define QUERIES 64                            // of a tile
#define KEYS 64                               // keys and values at a time
#define THREADS (QUERIES / 16 * 32)           // of a team
#define DEPTH ((HEAD_SIZE + 15) / 16 * 16)    // HEAD_SIZE, filled up with zeros
// Teams that a multiprocessor should hold at once, so that one computes while another waits.
#define COMPANY (DEPTH <= 64 ? 4 : DEPTH <= 128 ? 3 : 1)

#if HOPPER && (HEAD_SIZE == 64 || HEAD_SIZE == 128)
#define WARP_GROUP 1
#define TEAMS COMPANY                         // of a block, which share its queries
#define STAGE (KEYS * DEPTH)
#else
#define WARP_GROUP 0
#define TEAMS 1
// Rows lie an odd number of 16-byte pieces apart, so that eight of them touch all banks once.
#define PITCH ((DEPTH / 8 | 1) * 8)
#define STAGE (KEYS * PITCH)
#endif

#define TEAM_STAGES 3                         // two of keys, one of values

// Offset of a piece of eight values in a stage.
DEVICE u32 placed(u32 row, u32 column) {
#if WARP_GROUP
    // Columns in groups of 64.
    return column / 64 * KEYS * 64 + swizzled(row, column / 8 % 8);
#else
    return row * PITCH + column;
#endif
}

// Starts copying 64 rows of one head from row `first` on, for thread `thread` of those that do; what lies behind row `end` becomes zero.
template <u32 COUNT> DEVICE void fetch(bf16* target, const bf16* source, u32 stride, u32 first, u32 end, u32 thread) {
#if HEAD_SIZE % 8 == 0
#pragma unroll
    for (u32 piece = thread; piece < KEYS * (DEPTH / 8); piece += COUNT) {
        const u32 row = piece / (DEPTH / 8), column = piece % (DEPTH / 8) * 8;
        const bool there = first + row < end && column < HEAD_SIZE;
        const bf16* from = source + (there ? (size_t)(first + row) * stride + column : 0);
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                     :: "r"(shared_address(target + placed(row, column))), "l"(from), "r"(there ? 16 : 0));
    }
#else
    for (u32 index = thread; index < KEYS * DEPTH; index += COUNT) {
        const u32 row = index / DEPTH, column = index % DEPTH;
        const bool there = first + row < end && column < HEAD_SIZE;
        target[placed(row, column)] = there ? source[(size_t)(first + row) * stride + column] : bf16{0};
    }
#endif
}

// The queries of a warp's rows, where they are kept in registers.
struct Query {
#if !WARP_GROUP
    u32 parts[DEPTH / 16][4];
#endif
};

#if WARP_GROUP

// sums += a (64 x 16, in the registers of four warps) * b (16 x HEAD_SIZE, in shared memory), asynchronously.
DEVICE void multiply(float (&sums)[DEPTH / 8][4], const u32 (&a)[4], u64 b) {
#if HEAD_SIZE == 128
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" REGISTERS_64 "}, "
                 "{%64, %65, %66, %67}, %68, 1, 1, 1, %69;"
                 : SUMS_32(sums, 0), SUMS_32(sums, 8)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(1));
#else
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" REGISTERS_32 "}, "
                 "{%32, %33, %34, %35}, %36, 1, 1, 1, %37;"
                 : SUMS_32(sums, 0)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(1));
#endif
}

DEVICE Query load_query(const bf16*) { return {}; }

// Scores of a stage of keys.
DEVICE void score(float (&scores)[KEYS / 8][4], Query, const bf16* queries, const bf16* keys) {
    begin_products();
#pragma unroll
    for (int k = 0; k < DEPTH / 16; k++) {
        const u32 at = k / 4 * KEYS * 64 + k % 4 * 16;
        multiply(scores, matrix(queries + at), matrix(keys + at), k > 0);
    }
    finish_products();
}

// Adds up the values of a stage, weighted.
DEVICE void mix(float (&mixed)[DEPTH / 8][4], const u32 (&weights)[KEYS / 16][4], const bf16* values) {
    begin_products();
#pragma unroll
    for (int k = 0; k < KEYS / 16; k++) multiply(mixed, weights[k], matrix(values + k * 16 * 64));
    finish_products();
}

#else

DEVICE Query load_query(const bf16* queries) {
    const u32 lane = threadIdx.x % 32, row = threadIdx.x % THREADS / 32 * 16 + lane % 16;
    Query query;
#pragma unroll
    for (int k = 0; k < DEPTH / 16; k++) load_matrices(query.parts[k], queries + row * PITCH + k * 16 + lane / 16 * 8);
    return query;
}

// Scores of a stage of keys. Neighbouring products go to different sums, so that none waits for the one before.
DEVICE void score(float (&scores)[KEYS / 8][4], const Query& query, const bf16*, const bf16* keys) {
    const u32 lane = threadIdx.x % 32, key = lane / 16 * 8 + lane % 8, column = lane / 8 % 2 * 8;
#pragma unroll
    for (int k = 0; k < DEPTH / 16; k++)
#pragma unroll
        for (int block = 0; block < KEYS / 8; block += 2) {
            u32 m[4];
            load_matrices(m, keys + (block * 8 + key) * PITCH + k * 16 + column);
            if (k == 0)
                for (int i = 0; i < 4; i++) scores[block][i] = scores[block + 1][i] = 0.0f;
            multiply(scores[block], query.parts[k], m[0], m[1]);
            multiply(scores[block + 1], query.parts[k], m[2], m[3]);
        }
}

// Adds up the values of a stage, weighted.
DEVICE void mix(float (&mixed)[DEPTH / 8][4], const u32 (&weights)[KEYS / 16][4], const bf16* values) {
    const u32 lane = threadIdx.x % 32;
#pragma unroll
    for (int k = 0; k < KEYS / 16; k++)
#pragma unroll
        for (int block = 0; block < DEPTH / 16; block++) {
            u32 m[4];
            load_matrices_transposed(m, values + (k * 16 + lane % 16) * PITCH + lane / 16 * 8 + block * 16);
            multiply(mixed[2 * block], weights[k], m[0], m[1]);
            multiply(mixed[2 * block + 1], weights[k], m[2], m[3]);
        }
}

#endif
#endif
