// Products with weights of four bits. A tile of weights is widened to bf16 in shared memory, as the whole numbers of units that they
// are, and multiplied on tensor cores; the units come last. Every sum runs over k in order, so that an output does not depend on
// what is computed with it.
//
// A row of weights is in blocks of 512: a byte for each of 16 groups of 32 (scale - 1 in the lower half, zero point in the upper),
// then their values, 16 bytes for each group (the first half of it in the lower halves).

#define INT4_BLOCK 512
#define INT4_BLOCK_BYTES (16 + INT4_BLOCK / 2)
#define INT4_SIDE INT4_TILE  // rows and columns of a tile

DEVICE void put(const Int4Product& p, u32 m, u32 n, float sum) {
    if (m >= p.m || n >= p.n) return;
    const size_t at = (size_t)m * p.n + n;
    sum *= p.units[n];
    if (p.output_is_f32) {
        float* output = (float*)p.output + at;
        *output = p.add ? *output + sum : sum;
    } else {
        narrow(sum, (element*)p.output + at);
    }
}

#if BF16

#define INT4_SLICE 64  // of k: two groups
#define INT4_STAGES 6

// A slice of both factors, as it is copied.
struct Int4Stage {
    bf16 input[INT4_SIDE * INT4_SLICE];
    u8 weights[INT4_SIDE * INT4_SLICE / 2];
};

struct Int4Room {
    Int4Stage stages[INT4_STAGES];
    bf16 wide[INT4_SIDE * INT4_SLICE];
    // Of this block of weights and of the next.
    u8 groups[2][INT4_SIDE * 16];
};

DEVICE void copy_16(void* to, const void* from, bool there) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :: "r"(shared_address(to)), "l"(from), "r"(there ? 16 : 0));
}

// Starts copying a slice; what lies behind the last row or column becomes zero.
DEVICE void fetch_int4(const Int4Product& p, Int4Room& room, u32 slice, u32 first_m, u32 first_n) {
    Int4Stage& stage = room.stages[slice % INT4_STAGES];
    const u32 piece = threadIdx.x % 8, at = slice * INT4_SLICE + piece * 8;
#pragma unroll
    for (u32 i = 0; i < INT4_SIDE / 32; i++) {
        const u32 row = threadIdx.x / 8 + i * 32;
        const bool there = first_m + row < p.m && at < p.k;
        const bf16* from = p.input + (there ? (size_t)(first_m + row) * p.k + at : 0);
        bf16* to = stage.input + swizzled(row, piece);
        if (p.k % 8 == 0) {
            copy_16(to, from, there);
        } else {
            for (u32 j = 0; j < 8; j++) to[j] = there && at + j < p.k ? from[j] : bf16{0};
        }
    }
    const u32 blocks = (p.k + INT4_BLOCK - 1) / INT4_BLOCK, block = slice / 8;
    auto source = [&](u32 row) {
        const bool there = first_n + row < p.n;
        return p.weights + ((size_t)(there ? first_n + row : 0) * blocks + block) * INT4_BLOCK_BYTES;
    };
    if (threadIdx.x < 2 * INT4_SIDE) {
        const u32 row = threadIdx.x / 2, half = threadIdx.x % 2;
        copy_16(stage.weights + row * 32 + half * 16, source(row) + 16 + slice % 8 * 32 + half * 16, first_n + row < p.n);
    } else if (threadIdx.x < 3 * INT4_SIDE && slice % 8 == 0) {
        const u32 row = threadIdx.x - 2 * INT4_SIDE;
        copy_16(room.groups[block % 2] + row * 16, source(row), first_n + row < p.n);
    }
}

// Widens a slice of weights: four threads share a row, and each takes half of a group.
DEVICE void widen_int4(Int4Room& room, u32 slice) {
    const u32 row = threadIdx.x / 4, group = threadIdx.x % 4 / 2, half = threadIdx.x % 2;
    const u32 byte = room.groups[slice / 8 % 2][row * 16 + slice % 8 * 2 + group];
    const float scale = (float)(byte % 16 + 1), zero = (float)(byte / 16) * scale;
    const u32* words = (const u32*)(room.stages[slice % INT4_STAGES].weights + row * 32 + group * 16);
#pragma unroll
    for (u32 piece = 0; piece < 2; piece++) {
        u32* to = (u32*)(room.wide + swizzled(row, group * 4 + half * 2 + piece));
#pragma unroll
        for (u32 i = 0; i < 4; i++) {
            const u32 pair = words[piece * 2 + i / 2] >> (i % 2 * 16 + half * 4);
            // Whole numbers below 256 are exact.
            to[i] = pack((float)(pair & 15) * scale - zero, (float)(pair >> 8 & 15) * scale - zero);
        }
    }
}

// A warp computes 16 columns by 32 rows.
KERNEL __launch_bounds__(256, 2) product_int4(Int4Product p) {
    extern __shared__ __align__(16) u8 int4_room[];
    Int4Room& room = *(Int4Room*)int4_room;
    const u32 first_n = blockIdx.x * INT4_SIDE, first_m = blockIdx.y * INT4_SIDE;
    const u32 slices = (p.k + INT4_SLICE - 1) / INT4_SLICE;
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, my_n = warp % 4 * 16, my_m = warp / 4 * 32;
    float sums[4][4] = {};
    for (u32 slice = 0; slice < INT4_STAGES - 1; slice++) {
        if (slice < slices) fetch_int4(p, room, slice, first_m, first_n);
        commit();
    }
    for (u32 slice = 0; slice < slices; slice++) {
        arrive<INT4_STAGES - 2>();
        widen_int4(room, slice);
        // Into the stage that was multiplied last.
        if (slice + INT4_STAGES - 1 < slices) fetch_int4(p, room, slice + INT4_STAGES - 1, first_m, first_n);
        commit();
        __syncthreads();
        const bf16* input = room.stages[slice % INT4_STAGES].input;
#pragma unroll
        for (u32 k = 0; k < INT4_SLICE / 16; k++) {
            u32 a[4];
            load_matrices(a, room.wide + swizzled(my_n + lane % 16, k * 2 + lane / 16));
#pragma unroll
            for (u32 block = 0; block < 4; block += 2) {
                u32 b[4];
                load_matrices(b, input + swizzled(my_m + block * 8 + lane / 16 * 8 + lane % 8, k * 2 + lane / 8 % 2));
                multiply(sums[block], a, b[0], b[1]);
                multiply(sums[block + 1], a, b[2], b[3]);
            }
        }
    }
#pragma unroll
    for (u32 block = 0; block < 4; block++)
#pragma unroll
        for (u32 i = 0; i < 4; i++)
            put(p, first_m + my_m + block * 8 + lane % 4 * 2 + i % 2, first_n + my_n + lane / 4 + i / 2 * 8, sums[block][i]);
}

#else

DEVICE float int4_weight(const Int4Product& p, u32 n, u32 k) {
    const u32 blocks = (p.k + INT4_BLOCK - 1) / INT4_BLOCK, group = k % INT4_BLOCK / 32;
    const u8* block = p.weights + ((size_t)n * blocks + k / INT4_BLOCK) * INT4_BLOCK_BYTES;
    const int value = block[16 + group * 16 + k % 16] >> k % 32 / 16 * 4 & 15;
    return (float)((value - block[group] / 16) * (block[group] % 16 + 1));
}

// In f32, which no model uses it in: the plain sum.
KERNEL product_int4(Int4Product p) {
    for (u32 index = threadIdx.x; index < INT4_SIDE * INT4_SIDE; index += blockDim.x) {
        const u32 m = blockIdx.y * INT4_SIDE + index / INT4_SIDE, n = blockIdx.x * INT4_SIDE + index % INT4_SIDE;
        float sum = 0.0f;
        for (u32 k = 0; m < p.m && n < p.n && k < p.k; k++) sum += p.input[(size_t)m * p.k + k] * int4_weight(p, n, k);
        put(p, m, n, sum);
    }
}

#endif
