// Tensor cores, as attention uses them: scores of 64 queries with 64 keys, and sums of 64 values weighted by those. Queries,
// keys and values lie in stages of shared memory. There are two ways to the same: by warps, on every GPU with tensor cores
// for bf16, and by groups of four warps, on Hopper.
#if BF16

#define ROWS 64                               // queries of a tile
#define KEYS 64                               // keys and values at a time
#define WARPS (ROWS / 16)
#define DEPTH ((HEAD_SIZE + 15) / 16 * 16)    // HEAD_SIZE, filled up with zeros
// Blocks that a multiprocessor should hold at once, so that one computes while another waits.
#define COMPANY (DEPTH <= 64 ? 4 : DEPTH <= 128 ? 3 : 1)

#if defined(__CUDA_ARCH_FEAT_SM90_ALL) && (HEAD_SIZE == 64 || HEAD_SIZE == 128)
#define WARP_GROUP 1
#define STAGE (KEYS * DEPTH)
#else
#define WARP_GROUP 0
// Rows lie an odd number of 16-byte pieces apart, so that eight of them touch all banks once.
#define PITCH ((DEPTH / 8 | 1) * 8)
#define STAGE (KEYS * PITCH)
#endif

DEVICE u32 shared_address(const void* pointer) { return (u32)__cvta_generic_to_shared(pointer); }

// Where a piece of eight numbers lies in a stage.
DEVICE u32 placed(u32 row, u32 column) {
#if WARP_GROUP
    // Columns in groups of 64, in each of which the pieces of a row of 128 bytes are permuted ("128-byte swizzle").
    return column / 64 * KEYS * 64 + row * 64 + (column / 8 % 8 ^ row % 8) * 8;
#else
    return row * PITCH + column;
#endif
}

// Starts copying 64 rows of one head from row `first` on; what lies behind row `end` becomes zero.
DEVICE void fetch(bf16* target, const bf16* source, u32 stride, u32 first, u32 end) {
#if HEAD_SIZE % 8 == 0
#pragma unroll
    for (u32 piece = threadIdx.x; piece < KEYS * (DEPTH / 8); piece += WARPS * 32) {
        const u32 row = piece / (DEPTH / 8), column = piece % (DEPTH / 8) * 8;
        const bool there = first + row < end && column < HEAD_SIZE;
        const bf16* from = source + (there ? (size_t)(first + row) * stride + column : 0);
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                     :: "r"(shared_address(target + placed(row, column))), "l"(from), "r"(there ? 16 : 0));
    }
#else
    for (u32 index = threadIdx.x; index < KEYS * DEPTH; index += WARPS * 32) {
        const u32 row = index / DEPTH, column = index % DEPTH;
        const bool there = first + row < end && column < HEAD_SIZE;
        target[placed(row, column)] = there ? source[(size_t)(first + row) * stride + column] : bf16{0};
    }
#endif
}

DEVICE void commit() { asm volatile("cp.async.commit_group;"); }

// Waits until all but the last `PENDING` groups of copies have arrived for the whole block, and all of it is here.
template <int PENDING> DEVICE void arrive() {
    asm volatile("cp.async.wait_group %0;" :: "n"(PENDING) : "memory");
#if WARP_GROUP
    // Products read shared memory by another way than the copies wrote it.
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
    __syncthreads();
}

// The queries of a warp's rows, where they are kept in registers.
struct Query {
#if !WARP_GROUP
    u32 parts[DEPTH / 16][4];
#endif
};

#if WARP_GROUP

#define SUMS_4(s, i) "+f"(s[i][0]), "+f"(s[i][1]), "+f"(s[i][2]), "+f"(s[i][3])
#define SUMS_16(s, i) SUMS_4(s, i), SUMS_4(s, i + 1), SUMS_4(s, i + 2), SUMS_4(s, i + 3)
#define SUMS_32(s, i) SUMS_16(s, i), SUMS_16(s, i + 4)
#define REGISTERS_32 \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, " \
    "%24, %25, %26, %27, %28, %29, %30, %31"
#define REGISTERS_64 \
    REGISTERS_32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, " \
    "%51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"

// sums (+)= a (64 x 16) * transposed b (64 x 16), both in shared memory, asynchronously.
DEVICE void multiply(float (&sums)[KEYS / 8][4], u64 a, u64 b, int add) {
    asm volatile("{.reg .pred add; setp.ne.b32 add, %34, 0; "
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" REGISTERS_32 "}, %32, %33, add, 1, 1, 0, 0;}"
                 : SUMS_32(sums, 0)
                 : "l"(a), "l"(b), "r"(add));
}

// sums += a (64 x 16, in the registers of four warps) * b (16 x HEAD_SIZE, in shared memory), asynchronously.
DEVICE void multiply(float (&sums)[DEPTH / 8][4], const u32 (&a)[4], u64 b) {
#if HEAD_SIZE == 128
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" REGISTERS_64 "}, "
                 "{%64, %65, %66, %67}, %68, 1, 1, 1, 1;"
                 : SUMS_32(sums, 0), SUMS_32(sums, 8)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
#else
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" REGISTERS_32 "}, "
                 "{%32, %33, %34, %35}, %36, 1, 1, 1, 1;"
                 : SUMS_32(sums, 0)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
#endif
}

// What a product must know of a matrix in shared memory: its address, from one group of 64 columns to the next, from one group
// of eight rows to the next, and that pieces are permuted.
DEVICE u64 matrix(const bf16* pointer) {
    u64 address = shared_address(pointer) / 16, columns = KEYS * 64 * 2 / 16, rows = 8 * 64 * 2 / 16;
    return address | columns << 16 | rows << 32 | 1ull << 62;
}

DEVICE void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEVICE void finish_products() {
    asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory");
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

DEVICE void load_matrices(u32 (&m)[4], const bf16* pointer) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
                 : "r"(shared_address(pointer)));
}

DEVICE void load_matrices_transposed(u32 (&m)[4], const bf16* pointer) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
                 : "r"(shared_address(pointer)));
}

// sums += a (16 x 16) * b (16 x 8)
DEVICE void multiply(float (&sums)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

DEVICE Query load_query(const bf16* queries) {
    const u32 lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16 + lane % 16;
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
