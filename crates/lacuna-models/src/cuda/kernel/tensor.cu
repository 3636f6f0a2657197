// Tensor cores. There are two ways to the same: by warps, on every GPU with tensor cores for bf16, and by groups of four
// warps, on Hopper.
#if BF16

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define HOPPER 1
#else
#define HOPPER 0
#endif

DEVICE u32 shared_address(const void* pointer) { return (u32)__cvta_generic_to_shared(pointer); }

// Offset of a piece of eight values in rows of 64: the pieces of a row of 128 bytes are permuted ("128-byte swizzle"), so
// that eight rows touch all banks once.
DEVICE u32 swizzled(u32 row, u32 piece) { return row * 64 + (piece ^ row % 8) * 8; }

DEVICE void commit() { asm volatile("cp.async.commit_group;"); }

// Waits until all but the last `PENDING` groups of this thread's copies have arrived.
template <int PENDING> DEVICE void await_copies() { asm volatile("cp.async.wait_group %0;" :: "n"(PENDING) : "memory"); }

// The same for the whole block, and until all of it is here.
template <int PENDING> DEVICE void arrive() {
    await_copies<PENDING>();
#if HOPPER
    // Products read shared memory by another way than the copies wrote it.
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
    __syncthreads();
}

// Waits for the rest of one of the teams of four warps that a block has.
DEVICE void await_team(u32 team) { asm volatile("bar.sync %0, %1;" :: "r"(team + 1), "n"(128) : "memory"); }

// As `arrive`, for a team.
template <int PENDING> DEVICE void arrive_team(u32 team) {
    await_copies<PENDING>();
#if HOPPER
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
    await_team(team);
}

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

#if HOPPER

#define SUMS_4(s, i) "+f"(s[i][0]), "+f"(s[i][1]), "+f"(s[i][2]), "+f"(s[i][3])
#define SUMS_16(s, i) SUMS_4(s, i), SUMS_4(s, i + 1), SUMS_4(s, i + 2), SUMS_4(s, i + 3)
#define SUMS_32(s, i) SUMS_16(s, i), SUMS_16(s, i + 4)
#define REGISTERS_16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define REGISTERS_32 \
    REGISTERS_16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define REGISTERS_64 \
    REGISTERS_32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, " \
    "%51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"

// sums (+)= a (64 x 16) * transposed b (64 x 16), both in shared memory, asynchronously.
DEVICE void multiply(float (&sums)[8][4], u64 a, u64 b, int add) {
    asm volatile("{.reg .pred add; setp.ne.b32 add, %34, 0; "
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" REGISTERS_32 "}, %32, %33, add, 1, 1, 0, 0;}"
                 : SUMS_32(sums, 0)
                 : "l"(a), "l"(b), "r"(add));
}

// Descriptor of a matrix in shared memory: its address, from one group of 64 columns to the next, from one group
// of eight rows to the next, and that pieces are permuted.
DEVICE u64 matrix(const bf16* pointer) {
    u64 address = shared_address(pointer) / 16, columns = 64 * 64 * 2 / 16, rows = 8 * 64 * 2 / 16;
    return address | columns << 16 | rows << 32 | 1ull << 62;
}

// sums += a (64 x 16, in the registers of four warps) * transposed b (rows x 16, in shared memory), asynchronously.
DEVICE void multiply_rows(float (&sums)[2][4], const u32 (&a)[4], u64 b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7}, "
                 "{%8, %9, %10, %11}, %12, 1, 1, 1, %13;"
                 : SUMS_4(sums, 0), SUMS_4(sums, 1)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(0));
}
DEVICE void multiply_rows(float (&sums)[4][4], const u32 (&a)[4], u64 b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {" REGISTERS_16 "}, {%16, %17, %18, %19}, %20, 1, 1, 1, %21;"
                 : SUMS_16(sums, 0)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(0));
}
DEVICE void multiply_rows(float (&sums)[8][4], const u32 (&a)[4], u64 b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" REGISTERS_32 "}, {%32, %33, %34, %35}, %36, 1, 1, 1, %37;"
                 : SUMS_32(sums, 0)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(0));
}

DEVICE void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEVICE void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits for all products but those of the last `PENDING` groups.
template <int PENDING> DEVICE void await_products() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(PENDING) : "memory");
}

DEVICE void finish_products() {
    commit_products();
    await_products<0>();
}

#else

// Products of warps are done when they have been computed.
DEVICE void begin_products() {}
DEVICE void commit_products() {}
template <int PENDING> DEVICE void await_products() {}

#endif

// Sixteen bytes of memory.
struct __align__(16) Words {
    u32 at[4];
};

// a * b + c, for two bf16 each.
DEVICE u32 multiply_add_pair(u32 a, u32 b, u32 c) {
    u32 sum;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(c));
    return sum;
}

// sums += a (64 x 16, in the registers of four warps) * a slice of 16 columns of ROWS rows in shared memory, from piece `piece` on; on Hopper
// asynchronously.
template <u32 ROWS> DEVICE void multiply_columns(float (&sums)[ROWS / 8][4], const u32 (&a)[4], const bf16* rows, u32 piece) {
#if HOPPER
    multiply_rows(sums, a, matrix(rows + piece * 8));
#else
    const u32 lane = threadIdx.x % 32, row = lane / 16 * 8 + lane % 8;
#pragma unroll
    for (u32 block = 0; block < ROWS / 8; block += 2) {
        u32 b[4];
        load_matrices(b, rows + swizzled(block * 8 + row, piece + lane / 8 % 2));
        multiply(sums[block], a, b[0], b[1]);
        multiply(sums[block + 1], a, b[2], b[3]);
    }
#endif
}

#endif
