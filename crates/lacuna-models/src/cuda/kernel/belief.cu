// Beliefs from logits. A row is cut into stretches of fixed length, each summed up by one block of threads; sums are f64 sums
// of f32 terms, always in the same order.

#define STRETCH 4096
#define THREADS 256
#define EACH (STRETCH / THREADS)

// How a row is looked at.
struct Look {
    u64 previous;              // where the distribution kept before lies and this one is to be kept, or 0
    double previous_total;     // the logarithm of its sum of exponentials
    u32 compare;               // whether there is one
    u32 guide;                 // the row to push away from, or ~0
    float scale;               // how far
    u32 suppressed, suppressed_count;  // in the list of tokens
    u32 witness;               // a token whose logit is wanted, or ~0
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
    float* logits;  // [row][vocabulary]; the guiding rows behind those that are read
    const Look* looks;
    const u32* tokens;
    Summary* parts;       // [row][stretch]
    double* divergences;  // [row][stretch]
    Outcome* outcomes;
    u32 vocabulary, stretches, rows;
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

DEVICE Largest block_largest(Largest x) {
    __shared__ Largest parts[THREADS / 32];
    for (int offset = 16; offset > 0; offset /= 2) {
        Largest other = {__shfl_xor_sync(~0u, x.first, offset), __shfl_xor_sync(~0u, x.second, offset),
                         __shfl_xor_sync(~0u, x.token, offset)};
        x = larger(x, other);
    }
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
    __syncthreads();
    x = parts[0];
    for (int i = 1; i < THREADS / 32; i++) x = larger(x, parts[i]);
    return x;
}

KERNEL __launch_bounds__(THREADS) summarize(Reading r) {
    const u32 row = blockIdx.y, begin = blockIdx.x * STRETCH, end = min(begin + STRETCH, r.vocabulary);
    const Look look = r.looks[row];
    float* logits = r.logits + (size_t)row * r.vocabulary;
    if (look.guide != ~0u) {
        const float* unguided = r.logits + (size_t)look.guide * r.vocabulary;
        for (u32 i = begin + threadIdx.x; i < end; i += THREADS)
            logits[i] = __fadd_rn(unguided[i], __fmul_rn(look.scale + 1.0f, logits[i] - unguided[i]));
        __syncthreads();
    }
    __shared__ bool broken;
    if (threadIdx.x == 0) broken = false;
    __syncthreads();
    for (u32 i = threadIdx.x; i < look.suppressed_count; i += THREADS) {
        const u32 token = r.tokens[look.suppressed + i];
        if (token < begin || token >= end) continue;
        if (isnan(logits[token])) broken = true;
        logits[token] = -INFINITE;
    }
    __syncthreads();

    float values[EACH];
    Largest largest = {-INFINITE, -INFINITE, ~0u};
    bool nan = broken;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const u32 token = begin + i * THREADS + threadIdx.x;
        values[i] = token < end ? logits[token] : -INFINITE;
        nan |= isnan(values[i]);
        if (token < end && !isnan(values[i])) largest = larger(largest, {values[i], -INFINITE, token});
    }
    largest = block_largest(largest);
    nan = __syncthreads_or(nan);
    double total = 0.0, weighted = 0.0;
    if (largest.first > -INFINITE) {
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            if (values[i] == -INFINITE) continue;
            // -infinity times 0 would be NaN.
            const float below = fmaxf(values[i] - largest.first, -88.0f), weight = expf(below);
            total += weight;
            weighted += below * weight;
        }
    }
    total = block_sum(total);
    weighted = block_sum(weighted);
    // Infinity minus itself is no number either.
    if (nan || largest.first == INFINITE) total = __longlong_as_double(0x7ff8000000000000ll);
    if (threadIdx.x == 0)
        r.parts[(size_t)row * r.stretches + blockIdx.x] = {total, weighted, largest.first, largest.second, largest.token, 0.0f};
}

DEVICE Summary then(Summary a, Summary b) {
    const Summary high = b.first > a.first ? b : a, low = b.first > a.first ? a : b;
    if (low.total == 0.0) return high;
    const double below = (double)low.first - (double)high.first, factor = exp(below);
    return {high.total + factor * low.total, high.weighted + factor * (low.weighted + below * low.total),
            high.first, fmaxf(high.second, low.first), high.token, 0.0f};
}

// Puts the stretches of a row together: one thread for each row, in order.
KERNEL conclude(Reading r) {
    const u32 row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= r.rows) return;
    Summary sum = r.parts[(size_t)row * r.stretches];
    for (u32 i = 1; i < r.stretches; i++) sum = then(sum, r.parts[(size_t)row * r.stretches + i]);
    const u32 witness = r.looks[row].witness;
    sum.witness = witness == ~0u ? 0.0f : r.logits[(size_t)row * r.vocabulary + witness];
    r.outcomes[row] = {sum, (double)sum.first + log(sum.total), 0.0};
}

// KL(now || before) as KLASS's code has it: 1e-12 is added to both probabilities. What is now takes the place of what was.
KERNEL __launch_bounds__(THREADS) diverge(Reading r) {
    const u32 row = blockIdx.y, begin = blockIdx.x * STRETCH, end = min(begin + STRETCH, r.vocabulary);
    const Look look = r.looks[row];
    if (!look.previous) return;
    const float* logits = r.logits + (size_t)row * r.vocabulary;
    float* previous = (float*)look.previous;
    const double log_total = r.outcomes[row].log_total;
    double sum = 0.0;
    for (u32 i = begin + threadIdx.x; i < end; i += THREADS) {
        const float now = logits[i], before = previous[i];
        if (look.compare) {
            const float p = expf((float)((double)now - log_total)), q = expf((float)((double)before - look.previous_total));
            sum += p * logf((p + 1e-12f) / (q + 1e-12f));
        }
        previous[i] = now;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) r.divergences[(size_t)row * r.stretches + blockIdx.x] = sum;
}

KERNEL conclude_divergence(Reading r) {
    const u32 row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= r.rows || !r.looks[row].compare) return;
    double sum = 0.0;
    for (u32 i = 0; i < r.stretches; i++) sum += r.divergences[(size_t)row * r.stretches + i];
    r.outcomes[row].divergence = sum;
}
