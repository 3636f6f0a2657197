// Products with weights of four bits. They are widened to bf16 in registers, as the int8 values that they are, and
// multiplied on tensor cores; the row scales come last.
//
// A row of weights is in blocks of 512: a byte for each of 16 groups of 32 (scale - 1 in the lower half, zero point in the upper), those
// of groups 0, 4, 8 and 12 first, then of 1, 5 and so on; then their values, 16 bytes for each group: of each four bytes the lower halves
// are values i, i + 2, i + 1 and i + 3, the upper ones those 16 further on.
//
// Blocks make chunks: two if there are many columns, else eight, so that there is work for all of the GPU. A sum runs over the k of its
// chunk in order, then over pairs of chunks in order: it does not depend on the rows that are computed with it.

#define INT4_BLOCK 512
#define INT4_BLOCK_BYTES (16 + INT4_BLOCK / 2)
#define INT4_RUN 128  // of k: four groups

DEVICE void put(const Int4Product& p, size_t at, u32 n, float sum) {
    sum *= p.row_scales[n];
    if (p.output_is_f32) {
        float* output = (float*)p.output + at;
        *output = p.add ? *output + sum : sum;
    } else {
        narrow(sum, (element*)p.output + at);
    }
}

// The sum over pairs of chunks that several blocks of threads have computed.
KERNEL sum_int4(Int4Product p) {
    const size_t size = (size_t)p.m * p.n;
    for (size_t at = (size_t)blockIdx.x * blockDim.x + threadIdx.x; at < size; at += (size_t)gridDim.x * blockDim.x) {
        float sum = p.parts[at];
        for (u32 pair = 1; pair < p.pairs; pair++) sum += p.parts[pair * size + at];
        put(p, at, (u32)(at % p.n), sum);
    }
}

#if BF16

#define INT4_STAGES(rows) ((rows) > 32 ? 2 : 4)  // more do not fit into the shared memory of every GPU
#define INT4_PITCH 320  // bytes from one row of a run of the input to the next: its groups are 80 apart, so that lanes use all banks
#define INT4_HALVES(pair) ((pair) * 0x10001u)

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

// Scale and zero point of a group, as pairs of bf16.
struct Int4Group {
    u32 scale, offset;
};

DEVICE Int4Group int4_group(u32 byte) {
    // 128 + zero is exact, and so is every whole number up to 256.
    return {INT4_HALVES(__float_as_uint((float)(byte % 16 + 1)) >> 16), INT4_HALVES(0xc300 | byte / 16 % 16)};
}

// Two weights, whose values are in the lowest four bits of both halves of `values`.
DEVICE u32 widen_int4(u32 values, Int4Group group) {
    const u32 wide = (values & 0x000f000f) | 0x43004300;  // 128 + value
    return multiply_add_pair(multiply_add_pair(wide, 0x3f803f80, group.offset), group.scale, 0x80008000);
}

// Starts copying runs of the input, one of each chunk of a pair: `first` and `second` are where they begin.
template <u32 ROWS> DEVICE void fetch_int4(u8* stage, const Int4Product& p, u32 first_m, u32 first, u32 second) {
#pragma unroll
    for (u32 i = 0; i < ROWS / 8; i++) {
        const u32 index = threadIdx.x + i * 256, line = index / 16, piece = index % 16;
        const u32 m = first_m + line % ROWS, at = (line < ROWS ? first : second) + piece * 8;
        const bool there = m < p.m && at < p.k;
        const bf16* from = p.input + (there ? (size_t)m * p.k + at : 0);
        u8* to = stage + line * INT4_PITCH + piece / 4 * 80 + piece % 4 * 16;
        if (p.k % 8 == 0) {
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                         :: "r"(shared_address(to)), "l"(from), "r"(there ? 16 : 0));
        } else {
            for (u32 j = 0; j < 8; j++) ((bf16*)to)[j] = there && at + j < p.k ? from[j] : bf16{0};
        }
    }
}

// 128 columns by ROWS rows, of a pair of chunks or of SEVERAL. Four warps take the first chunk of a pair, four the second; each takes 32 columns, and
// of these a lane takes four: two of each sixteen.
template <u32 ROWS, bool SEVERAL> DEVICE void multiply_int4(const Int4Product& p) {
    extern __shared__ __align__(16) u8 int4_room[];
    constexpr u32 STAGE_COUNT = INT4_STAGES(ROWS), STAGE_BYTES = 2 * ROWS * INT4_PITCH;
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, half = warp / 4, member = lane % 4;
    const u32 my_n = blockIdx.x * 128 + warp % 4 * 32, splits = p.splits, first_m = blockIdx.y / splits * ROWS;
    const u32 blocks = (p.k + INT4_BLOCK - 1) / INT4_BLOCK, share = (blocks + 2 * p.pairs - 1) / (2 * p.pairs);
    const u32 begin = blockIdx.y % splits, end = SEVERAL && splits == 1 ? p.pairs : begin + 1;
    const u8* columns[2][2];
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
        const u32 n = min(my_n + i * 8 + lane / 4, p.n - 1);
        columns[i / 2][i % 2] = p.weights + (size_t)n * blocks * INT4_BLOCK_BYTES;
    }
    float totals[2][ROWS / 8][4];
    u32 pair = begin;
    do {
        const u32 first_block = (2 * pair + half) * share, runs = share * 4;
        const u32 first_k = 2 * pair * share * INT4_BLOCK, second_k = first_k + share * INT4_BLOCK;
        auto load = [&](u32 run) {
            if (run < runs)
                fetch_int4<ROWS>(int4_room + run % STAGE_COUNT * STAGE_BYTES, p, first_m, first_k + run * INT4_RUN,
                                 second_k + run * INT4_RUN);
            commit();
        };
        // What lies behind the last block is multiplied with zeros.
        auto block_of = [&](u32 run) { return min(first_block + run / 4, blocks - 1) * INT4_BLOCK_BYTES; };
        Words values[2][2][2];
        u32 groups[2][2];
        auto load_values = [&](Words (&to)[2][2], u32 run) {
            if (run >= runs) return;
            const u32 at = block_of(run) + 16 + (run % 4 * 4 + member) * 16;
#pragma unroll
            for (u32 i = 0; i < 4; i++) to[i / 2][i % 2] = *(const Words*)(columns[i / 2][i % 2] + at);
        };
        auto load_groups = [&](u32 run) {
#pragma unroll
            for (u32 i = 0; i < 4; i++) groups[i / 2][i % 2] = *(const u32*)(columns[i / 2][i % 2] + block_of(run) + member * 4);
        };
        float sums[2][ROWS / 8][4] = {};
        load_values(values[0], 0);
        load_values(values[1], 1);
        __syncthreads();
        for (u32 run = 0; run < STAGE_COUNT - 1; run++) load(run);
        for (u32 first_run = 0; first_run < runs; first_run += 4) {
            load_groups(first_run);
#pragma unroll
            for (u32 j = 0; j < 4; j++) {
                const u32 run = first_run + j;
                arrive<STAGE_COUNT - 2>();
                // Into the stage that was multiplied last.
                load(run + STAGE_COUNT - 1);
                const u8* rows = int4_room + run % STAGE_COUNT * STAGE_BYTES + (half * ROWS + lane / 4) * INT4_PITCH + member * 80;
                Int4Group its[2][2];
#pragma unroll
                for (u32 i = 0; i < 4; i++) its[i / 2][i % 2] = int4_group(groups[i / 2][i % 2] >> 8 * j & 255);
#pragma unroll
                for (u32 piece = 0; piece < 4; piece++) {
                    Words x[ROWS / 8];
#pragma unroll
                    for (u32 block = 0; block < ROWS / 8; block++)
                        x[block] = *(const Words*)(rows + block * 8 * INT4_PITCH + piece * 16);
#pragma unroll
                    for (u32 word = 0; word < 2; word++)
#pragma unroll
                        for (u32 tile = 0; tile < 2; tile++) {
                            u32 a[4];
#pragma unroll
                            for (u32 i = 0; i < 4; i++) {
                                const u32 packed = values[j % 2][tile][i % 2].at[piece % 2 * 2 + word];
                                a[i] = widen_int4(packed >> (piece / 2 * 4 + i / 2 * 8), its[tile][i % 2]);
                            }
#pragma unroll
                            for (u32 block = 0; block < ROWS / 8; block++)
                                multiply(sums[tile][block], a, x[block].at[word * 2], x[block].at[word * 2 + 1]);
                        }
                }
                load_values(values[j % 2], run + 2);
            }
        }
        __syncthreads();
        // The second chunk's sums go to the warps of the first.
        float* exchange = (float*)int4_room + threadIdx.x % 128;
#pragma unroll
        for (u32 i = 0; i < ROWS; i++)
            if (half == 1) exchange[i * 128] = sums[i / (ROWS / 2)][i / 4 % (ROWS / 8)][i % 4];
        __syncthreads();
#pragma unroll
        for (u32 i = 0; i < ROWS; i++)
            if (half == 0) {
                float& total = totals[i / (ROWS / 2)][i / 4 % (ROWS / 8)][i % 4];
                const float sum = sums[i / (ROWS / 2)][i / 4 % (ROWS / 8)][i % 4] + exchange[i * 128];
                total = pair == begin ? sum : total + sum;
            }
    } while (SEVERAL && ++pair < end);
    if (half == 1) return;
#pragma unroll
    for (u32 i = 0; i < ROWS; i++) {
        const u32 tile = i / (ROWS / 2), block = i / 4 % (ROWS / 8), j = i % 4;
        const u32 m = first_m + block * 8 + lane % 4 * 2 + j % 2, n = my_n + tile * 16 + lane / 4 + j / 2 * 8;
        if (m >= p.m || n >= p.n) continue;
        const size_t at = (size_t)m * p.n + n;
        if (splits > 1)
            p.parts[(size_t)begin * p.m * p.n + at] = totals[tile][block][j];
        else
            put(p, at, n, totals[tile][block][j]);
    }
}

KERNEL __launch_bounds__(256, 2) product_int4_16(Int4Product p) { multiply_int4<16, false>(p); }
KERNEL __launch_bounds__(256, 2) product_int4_32(Int4Product p) { multiply_int4<32, false>(p); }
KERNEL __launch_bounds__(256, 1) product_int4_64(Int4Product p) { multiply_int4<64, true>(p); }

#else

DEVICE float int4_weight(const Int4Product& p, u32 n, u32 k) {
    const u32 blocks = (p.k + INT4_BLOCK - 1) / INT4_BLOCK, group = k % INT4_BLOCK / 32, low = k % 16;
    const u8* block = p.weights + ((size_t)n * blocks + k / INT4_BLOCK) * INT4_BLOCK_BYTES;
    const u8 its = block[group % 4 * 4 + group / 4];
    const u8 both = block[16 + group * 16 + low / 4 * 4 + low % 2 * 2 + low / 2 % 2];
    return (float)(((both >> k % 32 / 16 * 4 & 15) - its / 16) * (its % 16 + 1));
}

// In f32, which no model uses it in: the plain sum.
DEVICE void multiply_int4(const Int4Product& p, u32 rows) {
    const u32 split = blockIdx.y % p.splits;
    for (u32 index = threadIdx.x; index < rows * 128; index += blockDim.x) {
        const u32 m = blockIdx.y / p.splits * rows + index / 128, n = blockIdx.x * 128 + index % 128;
        if (m >= p.m || n >= p.n) continue;
        float sum = 0.0f;
        for (u32 k = 0; split == 0 && k < p.k; k++) sum += p.input[(size_t)m * p.k + k] * int4_weight(p, n, k);
        const size_t at = (size_t)m * p.n + n;
        if (p.splits > 1)
            p.parts[(size_t)split * p.m * p.n + at] = sum;
        else
            put(p, at, n, sum);
    }
}

KERNEL product_int4_16(Int4Product p) { multiply_int4(p, 16); }
KERNEL product_int4_32(Int4Product p) { multiply_int4(p, 32); }
KERNEL product_int4_64(Int4Product p) { multiply_int4(p, 64); }

#endif
