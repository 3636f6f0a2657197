// Products of the experts. Their weights are read once for each tile of rows, in 16 bits, 8 or 4, and multiplied as bf16. Blocks of
// threads take the work in turns: STRETCH rows of an expert's weights at a time, the next of which are on their way while
// the last are multiplied. What a row gets depends on itself alone: its sums run over k in an order that never changes, and the order of the rows
// of an expert is any.

// The row of an expert's matrix that is line i of a stretch. Of gates and values each 16 lines are eight gates and their values.
template <bool GATED> DEVICE u32 weight_row(const ExpertProduct& p, u32 stretch, u32 i) {
    if (!GATED) return stretch * STRETCH + i < p.n ? stretch * STRETCH + i : ABSENT;
    const u32 width = p.n / 2, column = stretch * (STRETCH / 2) + i / 16 * 8 + i % 8;
    return column < width ? i / 8 % 2 * width + column : ABSENT;
}

// The row of the input that is row i of a tile.
template <bool GATED> DEVICE u32 input_row(const ExpertProduct& p, const ExpertTile& tile, u32 i) {
    return GATED ? p.order[tile.first + i] / p.slots : tile.first + i;
}

// What lines i and i + 8 of a stretch make of row `row` of a tile: a gate and its value, or two columns of the output.
template <typename Format, bool GATED>
DEVICE void put_sums(const ExpertProduct& p, const ExpertTile& tile, u32 row, u32 stretch, u32 i, float one, float other) {
    const u32 first = weight_row<GATED>(p, stretch, i), second = weight_row<GATED>(p, stretch, i + 8);
    if (first == ABSENT) return;
    one = Format::scaled(p, tile.expert, first, stretch * STRETCH + i, one);
    if (second != ABSENT) other = Format::scaled(p, tile.expert, second, stretch * STRETCH + i + 8, other);
    if (GATED) {
        narrow(silu(one) * other, (element*)p.output + (size_t)(tile.first + row) * (p.n / 2) + first);
    } else {
        float* output = (float*)p.output + (size_t)p.order[tile.first + row] * p.n;
        output[first] = one;
        if (second != ABSENT) output[second] = other;
    }
}

// Weights in rows: bf16 or f32, and fp8 with a scale for each row.
struct ElementRows {
    static DEVICE float scaled(const ExpertProduct&, u32, u32, u32, float sum) { return sum; }
};
struct Fp8Rows {
    static DEVICE float scaled(const ExpertProduct& p, u32 expert, u32 row, u32, float sum) {
        return sum * p.scales[(size_t)expert * p.n + row];
    }
};

// Weights of four bits in tiles (int4.cu): of each expert's stretches one after the other, with the lines that there are not.
struct Int4Lines {
    static DEVICE u32 lines(const ExpertProduct& p) { return (p.n + STRETCH - 1) / STRETCH * STRETCH; }
    static DEVICE float scaled(const ExpertProduct& p, u32 expert, u32, u32 line, float sum) {
        return sum * p.scales[(size_t)expert * lines(p) + line];
    }
};

#if BF16

// Starts copying sixteen bytes, or makes them zero. If they are not ALIGNED, `bytes` of them are there.
template <bool ALIGNED> DEVICE void fetch_piece(u8* to, const u8* from, int bytes) {
    if (ALIGNED) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(shared_address(to)), "l"(from), "r"(bytes > 0 ? 16 : 0));
    } else {
        for (int i = 0; i < 16; i += 2) *(u16*)(to + i) = i < bytes ? *(const u16*)(from + i) : 0;
    }
}

// A place of the pipeline: a slice of a stretch of weights, and of the rows of a tile.
template <typename Format> struct ExpertStage {
    u8 weights[Format::BYTES];
    u8 rows[EXPERT_ROWS * Format::SPAN * 2];
};

// Weights in rows, BITS each: a slice has 128 bytes of a row, in pieces of sixteen. A lane multiplies the values that lie beside each other in its
// pieces, whichever columns they are, in both factors. So pieces are permuted in shared memory such that lanes use all banks.
template <typename Kind, u32 BITS> struct RowWeights : Kind {
    static constexpr u32 EACH = 128 / BITS, SPAN = 8 * EACH, BYTES = STRETCH * 128, PIPELINE = 3, LINES = CREW / 8;
    using Stage = ExpertStage<RowWeights>;

    static DEVICE u32 place(u32 row, u32 piece) { return row * SPAN * 2 + (piece ^ (BITS == 16 ? (row & 1) << 2 : row & 1)) * 16; }

    // Weights 2i and 2i + 1 of sixteen bytes.
    static DEVICE u32 pair(const Words& weights, u32 i) {
        if (BITS == 16) return weights.at[i];
        // The bits of e4m3 are those of a bf16 whose exponent is 120 too low.
        const u32 upper = __byte_perm(weights.at[i / 2], 0, i % 2 ? 0x3424 : 0x1404);
        return multiply_add_pair((upper >> 4 & 0x07f007f0) | (upper & 0x80008000), 0x7b807b80, 0x80008000);
    }

    const u8* expert;
    // Where the rows begin that this thread copies pieces of.
    u32 rows[STRETCH / LINES];

    template <bool GATED> DEVICE void begin(const ExpertProduct& p, u32 number, u32 stretch) {
        const u32 bytes = p.k * BITS / 8;
        expert = p.weights + (size_t)number * p.n * bytes;
        // Rows that are ABSENT may be any: nobody takes their sums.
#pragma unroll
        for (u32 i = 0; i < STRETCH / LINES; i++)
            rows[i] = min(weight_row<GATED>(p, stretch, threadIdx.x / 8 + i * LINES), p.n - 1) * bytes;
    }

    template <bool ALIGNED> DEVICE void fetch(Stage& stage, const ExpertProduct& p, u32 slice) const {
        const u32 line = threadIdx.x / 8, piece = threadIdx.x % 8, at = slice * 128 + piece * 16;
#pragma unroll
        for (u32 i = 0; i < STRETCH / LINES; i++)
            fetch_piece<ALIGNED>(stage.weights + (line + i * LINES) * 128 + (piece ^ (line & 1) << 2) * 16, expert + at + rows[i],
                                 (int)(p.k * BITS / 8 - at));
    }

    // sums += a slice of a warp's 16 lines * a slice of the first `count` rows.
    static DEVICE void multiply_slice(float (&sums)[EXPERT_ROWS / 8][4], const Stage& stage, u32 count) {
        const u32 lane = threadIdx.x % 32, line = lane / 4, member = lane % 4, first = threadIdx.x / 32 * 16 + line;
#pragma unroll
        for (u32 step = 0; step < 2; step++) {
            Words weights[2];
#pragma unroll
            for (u32 i = 0; i < 2; i++)
                weights[i] = *(const Words*)(stage.weights + (first + i * 8) * 128 + ((step * 4 + member) ^ (line & 1) << 2) * 16);
#pragma unroll
            for (u32 part = 0; part < EACH / 8; part++) {
                u32 a[2][4];
#pragma unroll
                for (u32 i = 0; i < 8; i++) a[i / 4][i % 4] = pair(weights[i % 2], part * 4 + i / 2);
#pragma unroll
                for (u32 block = 0; block < EXPERT_ROWS / 8; block++) {
                    if (block * 8 >= count) break;
                    const Words x = *(const Words*)(stage.rows + place(block * 8 + line, (step * 4 + member) * (EACH / 8) + part));
                    multiply(sums[block], a[0], x.at[0], x.at[1]);
                    multiply(sums[block], a[1], x.at[2], x.at[3]);
                }
            }
        }
    }
};

using ElementWeights = RowWeights<ElementRows, 16>;
using Fp8Weights = RowWeights<Fp8Rows, 8>;

struct Int4Weights : Int4Lines {
    static constexpr u32 TILES = 2, SPAN = TILES * INT4_TILE, PIPELINE = 3;
    static constexpr u32 BAND_BYTES = TILES * INT4_TILE_BYTES, BYTES = STRETCH / INT4_TILE * BAND_BYTES;
    using Stage = ExpertStage<Int4Weights>;

    static DEVICE u32 place(u32 row, u32 piece) { return (piece / 8 * EXPERT_ROWS + row) * 128 + (piece % 8 ^ row % 8) * 16; }

    const u8* bands;

    template <bool GATED> DEVICE void begin(const ExpertProduct& p, u32 number, u32 stretch) {
        const size_t line = (size_t)number * lines(p) + stretch * STRETCH;
        bands = p.weights + line / INT4_TILE * ((p.k + INT4_TILE - 1) / INT4_TILE) * INT4_TILE_BYTES;
    }

    template <bool ALIGNED> DEVICE void fetch(Stage& stage, const ExpertProduct& p, u32 slice) const {
        const u32 band_bytes = (p.k + INT4_TILE - 1) / INT4_TILE * INT4_TILE_BYTES;
#pragma unroll
        for (u32 i = 0; i < (BYTES / 16 + CREW - 1) / CREW; i++) {
            const u32 at = (threadIdx.x + i * CREW) * 16, from = slice * BAND_BYTES + at % BAND_BYTES;
            if (at < BYTES) fetch_piece<true>(stage.weights + at, bands + at / BAND_BYTES * band_bytes + from, (int)(band_bytes - from));
        }
    }

    static DEVICE void multiply_slice(float (&sums)[EXPERT_ROWS / 8][4], const Stage& stage, u32 count) {
        const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
        for (u32 t = 0; t < TILES; t++) {
            const u8* tile = stage.weights + warp / 4 * BAND_BYTES + t * INT4_TILE_BYTES;
            const Words words = *(const Words*)(tile + threadIdx.x % 128 * 16);
            const Int4Groups groups = int4_groups(*(const u32*)(tile + INT4_VALUE_BYTES + (warp % 4 * 8 + lane / 4) * 4));
            u32 a[4][4];
#pragma unroll
            for (u32 i = 0; i < 2; i++) {
                widen_int4(a[i], words.at[i], groups.of<0>());
                widen_int4(a[i + 2], words.at[i + 2], groups.of<1>());
            }
#pragma unroll
            for (u32 block = 0; block < EXPERT_ROWS / 8; block++) {
                if (block * 8 >= count) break;
#pragma unroll
                for (u32 half = 0; half < 2; half++) {
                    u32 b[4];
                    load_matrices(b, (const bf16*)(stage.rows + place(block * 8 + lane % 8, t * 8 + half * 4 + lane / 8)));
                    multiply(sums[block], a[half * 2], b[0], b[1]);
                    multiply(sums[block], a[half * 2 + 1], b[2], b[3]);
                }
            }
        }
    }
};

// Copies the slices of all that a block of threads takes, one after the other.
template <typename Format, bool GATED> struct ExpertLoader {
    static constexpr u32 LINES = CREW / 8;
    const ExpertProduct& p;
    u32 stretches, items, item, slice, count;
    Format weights;
    // The rows that this thread copies pieces of.
    const u8* rows[EXPERT_ROWS / LINES];

    DEVICE ExpertLoader(const ExpertProduct& p, u32 stretches, u32 items)
        : p(p), stretches(stretches), items(items), item(blockIdx.x) {
        begin();
    }

    DEVICE void begin() {
        slice = 0;
        if (item >= items) return;
        const ExpertTile tile = p.tiles[item / stretches];
        count = tile.count;
        weights.template begin<GATED>(p, tile.expert, item % stretches);
#pragma unroll
        for (u32 i = 0; i < EXPERT_ROWS / LINES; i++) {
            const u32 row = input_row<GATED>(p, tile, min(threadIdx.x / 8 + i * LINES, count - 1));
            rows[i] = (const u8*)(p.input + (size_t)row * p.k);
        }
    }

    template <bool ALIGNED> DEVICE void fetch(ExpertStage<Format>& stage) {
        weights.template fetch<ALIGNED>(stage, p, slice);
#pragma unroll
        for (u32 i = 0; i < EXPERT_ROWS / LINES; i++) {
            const u32 line = threadIdx.x / 8 + i * LINES;
            if (line >= (count + 7) / 8 * 8) break;
#pragma unroll
            for (u32 j = 0; j < Format::SPAN / 8; j += 8) {
                const u32 piece = threadIdx.x % 8 + j, at = slice * Format::SPAN * 2 + piece * 16;
                fetch_piece<ALIGNED>(stage.rows + Format::place(line, piece), rows[i] + at, line < count ? (int)(p.k * 2 - at) : 0);
            }
        }
    }

    DEVICE void load(ExpertStage<Format>& stage) {
        if (item < items) {
            if (p.k % 8 == 0)
                fetch<true>(stage);
            else
                fetch<false>(stage);
            if (++slice * Format::SPAN >= p.k) item += gridDim.x, begin();
        }
        commit();
    }
};

template <typename Format, bool GATED> DEVICE void multiply_experts(const ExpertProduct& p) {
    extern __shared__ __align__(16) u8 expert_room[];
    ExpertStage<Format>* stages = (ExpertStage<Format>*)expert_room;
    constexpr u32 PIPELINE = Format::PIPELINE;
    const u32 stretches = (p.n + STRETCH - 1) / STRETCH, items = *p.tile_count * stretches;
    const u32 lane = threadIdx.x % 32;
    u32 loaded = 0, stage = 0;
    auto next = [](u32 stage) { return stage + 1 == PIPELINE ? 0 : stage + 1; };
    ExpertLoader<Format, GATED> loader(p, stretches, items);
    for (; loaded < PIPELINE - 1; loaded++) loader.load(stages[loaded]);
    for (u32 item = blockIdx.x; item < items; item += gridDim.x) {
        const ExpertTile tile = p.tiles[item / stretches];
        float sums[EXPERT_ROWS / 8][4] = {};
        for (u32 slice = 0; slice * Format::SPAN < p.k; slice++) {
            await_copies<PIPELINE - 2>();
            __syncthreads();
            // Into the stage that was multiplied last.
            loader.load(stages[loaded]);
            Format::multiply_slice(sums, stages[stage], tile.count);
            loaded = next(loaded), stage = next(stage);
        }
#pragma unroll
        for (u32 i = 0; i < EXPERT_ROWS / 4; i++) {
            const u32 row = i / 2 * 8 + lane % 4 * 2 + i % 2, line = threadIdx.x / 32 * 16 + lane / 4;
            if (row < tile.count)
                put_sums<Format, GATED>(p, tile, row, item % stretches, line, sums[i / 2][i % 2], sums[i / 2][2 + i % 2]);
        }
    }
}

static_assert(ElementWeights::PIPELINE * sizeof(ElementWeights::Stage) == EXPERT_SHARED, "Rust counts otherwise");
static_assert(Fp8Weights::PIPELINE * sizeof(Fp8Weights::Stage) == EXPERT_SHARED_FP8, "Rust counts otherwise");
static_assert(Int4Weights::PIPELINE * sizeof(Int4Weights::Stage) == EXPERT_SHARED_INT4, "Rust counts otherwise");

#else

struct ElementWeights : ElementRows {
    static DEVICE float at(const ExpertProduct& p, u32 expert, u32 row, u32, u32 k) {
        return ((const float*)p.weights)[((size_t)expert * p.n + row) * p.k + k];
    }
};

struct Fp8Weights : Fp8Rows {
    static DEVICE float at(const ExpertProduct& p, u32 expert, u32 row, u32, u32 k) {
        const u32 bits = p.weights[((size_t)expert * p.n + row) * p.k + k];
        return __uint_as_float(bits >> 7 << 31 | (bits & 127) << 20) * __uint_as_float(0x7b800000);
    }
};

struct Int4Weights : Int4Lines {
    static DEVICE float at(const ExpertProduct& p, u32 expert, u32, u32 line, u32 k) {
        return int4_weight(p.weights, p.k, (size_t)expert * lines(p) + line, k);
    }
};

template <typename Format, bool GATED> DEVICE void multiply_experts(const ExpertProduct& p) {
    extern __shared__ float tile_sums[];
    const u32 stretches = (p.n + STRETCH - 1) / STRETCH, items = *p.tile_count * stretches;
    for (u32 item = blockIdx.x; item < items; item += gridDim.x) {
        const u32 stretch = item % stretches;
        const ExpertTile tile = p.tiles[item / stretches];
        auto input = [&](u32 i, u32 k) {
            return i < tile.count ? p.input[(size_t)input_row<GATED>(p, tile, i) * p.k + k] : 0.0f;
        };
        auto weight = [&](u32 i, u32 k) {
            const u32 row = weight_row<GATED>(p, stretch, i);
            return row == ABSENT ? 0.0f : Format::at(p, tile.expert, row, stretch * STRETCH + i, k);
        };
        add_products(tile_sums, p.k, input, weight);
        __syncthreads();
        for (u32 index = threadIdx.x; index < tile.count * (STRETCH / 2); index += CREW) {
            const u32 row = index / (STRETCH / 2), line = index % (STRETCH / 2) / 8 * 16 + index % 8;
            const float* sums = tile_sums + row * TILE_PITCH + line;
            put_sums<Format, GATED>(p, tile, row, stretch, line, sums[0], sums[8]);
        }
        __syncthreads();
    }
}

#endif

// inner[slot] = silu(gate) * up of the rows of each expert.
KERNEL __launch_bounds__(CREW, EXPERT_BLOCKS) expert_gate_up(ExpertProduct p) { multiply_experts<ElementWeights, true>(p); }
KERNEL __launch_bounds__(CREW, EXPERT_BLOCKS) expert_gate_up_fp8(ExpertProduct p) { multiply_experts<Fp8Weights, true>(p); }
KERNEL __launch_bounds__(CREW, EXPERT_BLOCKS) expert_gate_up_int4(ExpertProduct p) { multiply_experts<Int4Weights, true>(p); }

// output[row of the layout, number of its expert] = what the expert makes of the row.
KERNEL __launch_bounds__(CREW, EXPERT_BLOCKS) expert_down(ExpertProduct p) { multiply_experts<ElementWeights, false>(p); }
KERNEL __launch_bounds__(CREW, EXPERT_BLOCKS) expert_down_fp8(ExpertProduct p) { multiply_experts<Fp8Weights, false>(p); }
KERNEL __launch_bounds__(CREW, EXPERT_BLOCKS) expert_down_int4(ExpertProduct p) { multiply_experts<Int4Weights, false>(p); }

// hidden += the sum of what a row's experts make of it, weighted, in ascending order.
KERNEL combine(Combination c) {
    follow();
    const u32 row = blockIdx.x;
    if (row >= *c.present) return;
    float* hidden = c.hidden + (size_t)row * c.width;
    const float* weights = c.weights + (size_t)row * c.slots;
    const float* outputs = c.outputs + (size_t)row * c.slots * c.width;
    for (u32 i = blockIdx.y * blockDim.x + threadIdx.x; i < c.width; i += gridDim.y * blockDim.x) {
        float sum = hidden[i];
        for (u32 number = 0; number < c.slots; number++) sum += weights[number] * outputs[(size_t)number * c.width + i];
        hidden[i] = sum;
    }
}
