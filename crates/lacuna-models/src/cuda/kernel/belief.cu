// Beliefs from logits. A row of logits is cut into stretches of fixed length, each summed up by one warp as soon as it is known;
// then the stretches are put together. Sums are f64 sums of f32 terms, always in the same order.

#define STRETCH 128
#define EACH (STRETCH / 32)
#define MERGERS 128

// How a row is looked at.
struct Look {
    float* logits;             // where its logits are wanted, or null
    float* previous;           // where the distribution kept before lies and this one is to be kept, or null
    double previous_total;     // the logarithm of its sum of exponentials
    u32 compare;               // whether there is one
    u32 guide;                 // the row to push away from, or ~0
    float scale;               // how far
    u32 suppressed, suppressed_count;  // in the list of tokens
    u32 witness;               // a token whose logit is wanted, or ~0
    u32 silent;                // whether nothing but its logits is wanted
};

// The two largest logits, where the first of them stands, and sums relative to it.
struct Summary {
    double total;     // sum of exp(logit - first); NaN if a logit is
    double weighted;  // sum of (logit - first) * exp(logit - first)
    float first, second;
    u32 token;
    float witness;
};

struct Outcome {
    Summary summary;
    double log_total, divergence;
};

struct Reading {
    const Look* looks;
    const u32* tokens;
    Summary* parts;       // [row][stretch]
    double* divergences;  // [row][piece]
    Outcome* outcomes;
    u32 vocabulary, stretches, pieces, rows;
};

struct Largest {
    float first, second;
    u32 token;
};

// Of equals the lower token comes first.
DEVICE Largest larger(Largest a, Largest b) {
    const bool swap = b.first > a.first || (b.first == a.first && b.token < a.token);
    const Largest high = swap ? b : a, low = swap ? a : b;
    return {high.first, fmaxf(high.second, low.first), high.token};
}

// Sums up a stretch of a row. The lanes of a warp hold its logits: lane l those of tokens l, l + 32, ... of the stretch.
DEVICE void sum_up(const Reading& r, u32 row, const Look& look, u32 stretch, float (&logits)[EACH]) {
    const u32 mine = stretch * STRETCH + threadIdx.x % 32;
    bool nan = false;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        nan |= isnan(logits[i]);
        if (mine + i * 32 >= r.vocabulary) logits[i] = -INFINITE;
    }
    for (u32 i = 0; i < look.suppressed_count; i++) {
        const u32 token = r.tokens[look.suppressed + i];
#pragma unroll
        for (int j = 0; j < EACH; j++)
            if (token == mine + j * 32) logits[j] = -INFINITE;
    }
    Largest largest = {-INFINITE, -INFINITE, ~0u};
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const u32 token = mine + i * 32;
        if (token >= r.vocabulary) continue;
        if (look.logits) look.logits[token] = logits[i];
        if (token == look.witness) r.outcomes[row].summary.witness = logits[i];
        if (!isnan(logits[i])) largest = larger(largest, {logits[i], -INFINITE, token});
    }
    for (int offset = 16; offset > 0; offset /= 2) {
        const Largest other = {__shfl_xor_sync(~0u, largest.first, offset), __shfl_xor_sync(~0u, largest.second, offset),
                               __shfl_xor_sync(~0u, largest.token, offset)};
        largest = larger(largest, other);
    }
    double total = 0.0, weighted = 0.0;
    if (largest.first > -INFINITE) {
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            if (logits[i] == -INFINITE) continue;
            // -infinity times 0 would be NaN.
            const float below = fmaxf(logits[i] - largest.first, -88.0f), weight = expf(below);
            total += weight;
            weighted += below * weight;
        }
    }
    total = warp_sum(total);
    weighted = warp_sum(weighted);
    // Infinity minus itself is no number either.
    if (__any_sync(~0u, nan) || largest.first == INFINITE) total = __longlong_as_double(0x7ff8000000000000ll);
    if (threadIdx.x % 32 == 0)
        r.parts[(size_t)row * r.stretches + stretch] = {total, weighted, largest.first, largest.second, largest.token, 0.0f};
}

// Rows that are guided: mixes their logits with those to push away from, and sums them up. One warp for each stretch.
KERNEL __launch_bounds__(256) guide(Reading r) {
    const u32 row = blockIdx.y, stretch = blockIdx.x * 8 + threadIdx.x / 32;
    const Look look = r.looks[row];
    if (look.guide == ~0u || stretch >= r.stretches) return;
    const float* unguided = r.looks[look.guide].logits;
    float logits[EACH];
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const u32 token = stretch * STRETCH + threadIdx.x % 32 + i * 32;
        if (token >= r.vocabulary) logits[i] = 0.0f;
        else logits[i] = __fadd_rn(unguided[token], __fmul_rn(look.scale + 1.0f, look.logits[token] - unguided[token]));
    }
    sum_up(r, row, look, stretch, logits);
}

DEVICE Summary then(Summary a, Summary b) {
    const Summary high = b.first > a.first ? b : a, low = b.first > a.first ? a : b;
    if (low.total == 0.0) return high;
    const double below = (double)low.first - (double)high.first, factor = exp(below);
    return {high.total + factor * low.total, high.weighted + factor * (low.weighted + below * low.total),
            high.first, fmaxf(high.second, low.first), high.token, 0.0f};
}

// Puts the stretches of a row together: each thread some neighbours, then pairs of threads.
KERNEL __launch_bounds__(MERGERS) conclude(Reading r) {
    __shared__ Summary sums[MERGERS];
    const u32 row = blockIdx.x, mine = threadIdx.x, each = (r.stretches + MERGERS - 1) / MERGERS;
    if (r.looks[row].silent) return;
    const Summary* parts = r.parts + (size_t)row * r.stretches;
    Summary sum = {0.0, 0.0, -INFINITE, -INFINITE, ~0u, 0.0f};
    for (u32 i = mine * each; i < min((mine + 1) * each, r.stretches); i++) sum = then(sum, parts[i]);
    sums[mine] = sum;
    for (u32 apart = 1; apart < MERGERS; apart *= 2) {
        __syncthreads();
        if (mine % (2 * apart) == 0) sums[mine] = sum = then(sum, sums[mine + apart]);
    }
    if (mine > 0) return;
    sum.witness = r.outcomes[row].summary.witness;
    r.outcomes[row] = {sum, (double)sum.first + log(sum.total), 0.0};
}

#define PIECE 4096

// KL(now || before) as KLASS's code has it: 1e-12 is added to both probabilities. What is now takes the place of what was.
KERNEL __launch_bounds__(256) diverge(Reading r) {
    const u32 row = blockIdx.y, begin = blockIdx.x * PIECE, end = min(begin + PIECE, r.vocabulary);
    const Look look = r.looks[row];
    if (!look.previous) return;
    const double log_total = r.outcomes[row].log_total;
    double sum = 0.0;
    for (u32 i = begin + threadIdx.x; i < end; i += blockDim.x) {
        const float now = look.logits[i], before = look.previous[i];
        if (look.compare) {
            const float p = expf((float)((double)now - log_total)), q = expf((float)((double)before - look.previous_total));
            sum += p * logf((p + 1e-12f) / (q + 1e-12f));
        }
        look.previous[i] = now;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) r.divergences[(size_t)row * r.pieces + blockIdx.x] = sum;
}

KERNEL conclude_divergence(Reading r) {
    const u32 row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= r.rows || !r.looks[row].compare) return;
    double sum = 0.0;
    for (u32 i = 0; i < r.pieces; i++) sum += r.divergences[(size_t)row * r.pieces + i];
    r.outcomes[row].divergence = sum;
}
