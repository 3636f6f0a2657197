// Beliefs from logits. A row of logits is cut into stretches, and a stretch into segments, which are summed up as soon as they
// are known; then segments and stretches are put together. All sums run in an order that does not depend on the rows.

#define STRETCH 128
#define SEGMENT 32
#define MERGERS 128

// How a row is looked at.
struct Look {
    float* logits;             // where its logits are wanted, or null
    float* kept;               // where the logits of this position are kept from one step to the next, or null
    double kept_total;         // the logarithm of the sum of exponentials of those that are there
    u32 compare;               // whether there are any
    u32 guide;                 // the row to push away from, or ~0
    float scale;               // how far
    u32 suppressed, suppressed_count;  // in the list of tokens
    u32 deferred, deferred_count;      // likewise: tokens that can be drawn, but have no probability
    u32 witness;               // a token whose logit is wanted, or ~0
    u32 line;                  // it is read only if this one gets so far, or ~0
    u32 silent;                // whether nothing but its logits is wanted
    u32 again;                 // whether it takes a second look, because some tokens are deferred or only the most probable count
    u32 most;                  // how many of these at most
    double share;              // how much probability may lie above each of these
    double temper;             // what logits are divided by
    double noise;              // how much Gumbel noise decides which token is drawn; 0 if the largest is taken
};

// The two largest logits, where the first of them stands, and sums relative to it.
struct Summary {
    double total;     // sum of exp(logit - first); NaN if a logit is
    double weighted;  // sum of (logit - first) * exp(logit - first)
    double moved;     // sum of (logit - log(kept probability + 1e-12) - kept_total) * exp(logit - first)
    float first, second;
    u32 token;
    float witness;
    double weight;    // the largest logit with its noise, and whose it is
    u32 drawn;
    float drawn_logit;
};

struct Reading {
    const Look* looks;
    const u64* draws;     // where the random numbers of each row come from
    const u32* tokens;
    Summary* parts;       // [row][stretch]
    Summary* outcomes;    // [row]
    const Line* lines;
    u32 vocabulary, stretches, rows;
    u32 round;            // which of their rounds this is, from 1
};

DEVICE bool is_read(const Reading& r, u32 row) {
    const u32 line = r.looks[row].line;
    return line == ~0u || r.lines[line].rounds >= r.round;
}

#define NOTHING Summary{0.0, 0.0, 0.0, -INFINITE, -INFINITE, ~0u, 0.0f, -INFINITE, ~0u, -INFINITE}

// Both together. Of equals the lower token comes first.
DEVICE Summary both(Summary a, Summary b) {
    const bool rises = b.first > a.first || (b.first == a.first && b.token < a.token);
    const bool drawn = b.weight > a.weight || (b.weight == a.weight && b.drawn < a.drawn);
    const Summary low = rises ? a : b;
    Summary sum = rises ? b : a;
    if (low.total != 0.0) {
        const float below = low.first - sum.first, factor = expf(below);
        sum.total += factor * low.total;
        sum.weighted += factor * (low.weighted + below * low.total);
        sum.moved += factor * low.moved;
        sum.second = fmaxf(sum.second, low.first);
    }
    sum.weight = drawn ? b.weight : a.weight;
    sum.drawn = drawn ? b.drawn : a.drawn;
    sum.drawn_logit = drawn ? b.drawn_logit : a.drawn_logit;
    return sum;
}

// A bijection of 64 bits, the numbers of a row's draws, and Gumbel noise, as the core has them.
DEVICE u64 mix(u64 x) {
    x += 0x9E3779B97F4A7C15ull;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ x >> 27) * 0x94D049BB133111EBull;
    return x ^ x >> 31;
}
DEVICE double uniform(u64 draw, u32 token) {
    return ((double)(mix(draw ^ mix(token)) >> 11) + 0.5) * (1.0 / 9007199254740992.0);
}
DEVICE double gumbel(u64 draw, u32 token) { return -log(-log(uniform(draw, token))); }

// The sums of another lane.
DEVICE Summary exchanged(Summary s, u32 apart) {
    return {__shfl_xor_sync(~0u, s.total, apart), __shfl_xor_sync(~0u, s.weighted, apart), __shfl_xor_sync(~0u, s.moved, apart),
            __shfl_xor_sync(~0u, s.first, apart), __shfl_xor_sync(~0u, s.second, apart), __shfl_xor_sync(~0u, s.token, apart),
            0.0f, __shfl_xor_sync(~0u, s.weight, apart), __shfl_xor_sync(~0u, s.drawn, apart),
            __shfl_xor_sync(~0u, s.drawn_logit, apart)};
}

// What a token adds to the divergence from what was kept, to be weighted with its probability. The same logit as before should
// add nothing.
DEVICE double moved(const Look& look, u32 token, double now) {
    const double before = look.kept[token];
    const float probability = expf((float)(before - look.kept_total));
    return probability > 1e-6f ? now - before - 1e-12 / probability : now - look.kept_total - logf(probability + 1e-12f);
}

// Sums up one segment of a row, whose logits lie in shared memory, where they are tempered and suppressed ones lost. Tokens are taken in
// turn, each segment beginning with another one: so threads that take neighbouring segments use different banks.
DEVICE Summary sum_up(const Reading& r, u32 row, const Look& look, u32 stretch, u32 segment, float* logits) {
    // Of the last segments nothing may be left.
    const u32 begin = stretch * STRETCH + segment * SEGMENT, end = max(begin, min(begin + SEGMENT, r.vocabulary));
    bool nan = false;
    for (u32 i = 0; i < look.suppressed_count; i++) {
        const u32 token = r.tokens[look.suppressed + i];
        if (token < begin || token >= end) continue;
        nan |= isnan(logits[token - begin]);
        logits[token - begin] = -INFINITE;
    }
    if (look.temper != 1.0)
        for (u32 at = 0; at < end - begin; at++) logits[at] = (float)((double)logits[at] / look.temper);
    if (look.witness >= begin && look.witness < end) r.outcomes[row].witness = logits[look.witness - begin];
    Summary sum = NOTHING;
#pragma unroll
    for (u32 i = 0; i < SEGMENT; i++) {
        const u32 at = (i + segment * 8) % SEGMENT;
        if (begin + at >= end) continue;
        const float logit = logits[at];
        nan |= isnan(logit);
        // Of equals the lower token comes first.
        if (logit > sum.first || (logit == sum.first && begin + at < sum.token)) {
            sum.second = sum.first;
            sum.first = logit;
            sum.token = begin + at;
        } else {
            sum.second = fmaxf(sum.second, logit);
        }
    }
    float total = 0.0f, weighted = 0.0f;
    if (sum.first > -INFINITE) {
#pragma unroll
        for (u32 i = 0; i < SEGMENT; i++) {
            const u32 at = (i + segment * 8) % SEGMENT;
            if (begin + at >= end || logits[at] == -INFINITE) continue;
            // -infinity times 0 would be NaN.
            const float below = fmaxf(logits[at] - sum.first, -88.0f), weight = expf(below);
            total += weight;
            weighted += below * weight;
        }
    }
    if (look.compare && !look.again && sum.first > -INFINITE) {
        for (u32 at = 0; at < end - begin; at++) {
            if (logits[at] == -INFINITE) continue;
            sum.moved += moved(look, begin + at, logits[at]) * expf(fmaxf(logits[at] - sum.first, -88.0f));
        }
    }
    // Infinity minus itself is no number either.
    sum.total = nan || sum.first == INFINITE ? __longlong_as_double(0x7ff8000000000000ll) : (double)total;
    sum.weighted = weighted;
    sum.weight = sum.first;
    sum.drawn = sum.token;
    sum.drawn_logit = sum.first;
    if (look.noise > 0.0 && !look.again) {
        const u64 draw = r.draws[row];
        sum.weight = -INFINITE;
        for (u32 token = begin; token < end; token++) {
            const float logit = logits[token - begin];
            if (logit == -INFINITE) continue;
            const double weight = (double)logit + look.noise * gumbel(draw, token);
            if (!(weight > sum.weight)) continue;
            sum.weight = weight;
            sum.drawn = token;
            sum.drawn_logit = logit;
        }
    }
    return sum;
}

// The same from four lanes that have the segments of a stretch, for each of them.
DEVICE Summary whole_stretch(Summary sum) {
    for (u32 apart = 1; apart < STRETCH / SEGMENT; apart *= 2) sum = both(sum, exchanged(sum, apart));
    return sum;
}

// Rows that are guided: mixes their logits with those to push away from, and sums them up. A block takes a stretch.
KERNEL __launch_bounds__(STRETCH) guide(Reading r) {
    __shared__ float logits[STRETCH];
    const u32 row = blockIdx.y, stretch = blockIdx.x, token = stretch * STRETCH + threadIdx.x;
    const Look look = r.looks[row];
    if (look.guide == ~0u || !is_read(r, row)) return;
    if (token < r.vocabulary) {
        const float unguided = r.looks[look.guide].logits[token];
        logits[threadIdx.x] = __fadd_rn(unguided, __fmul_rn(look.scale + 1.0f, look.logits[token] - unguided));
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        const u32 segment = threadIdx.x % (STRETCH / SEGMENT);
        Summary sum = NOTHING;
        if (threadIdx.x == segment) sum = sum_up(r, row, look, stretch, segment, logits + segment * SEGMENT);
        sum = whole_stretch(sum);
        if (threadIdx.x == 0) r.parts[(size_t)row * r.stretches + stretch] = sum;
    }
    __syncthreads();
    float* target = look.again ? look.logits : look.kept;
    if (token < r.vocabulary && target) target[token] = logits[threadIdx.x];
}

// What all threads of a block have, for the first of them: neighbours first.
DEVICE Summary whole_block(Summary sum, Summary* sums) {
    sums[threadIdx.x] = sum;
    for (u32 apart = 1; apart < blockDim.x; apart *= 2) {
        __syncthreads();
        if (threadIdx.x % (2 * apart) == 0) sums[threadIdx.x] = sum = both(sum, sums[threadIdx.x + apart]);
    }
    return sum;
}

// Puts the stretches of a row together.
KERNEL __launch_bounds__(MERGERS) conclude(Reading r) {
    __shared__ Summary sums[MERGERS];
    const u32 row = blockIdx.x, mine = threadIdx.x, each = (r.stretches + MERGERS - 1) / MERGERS;
    if (r.looks[row].silent || !is_read(r, row)) return;
    const Summary* parts = r.parts + (size_t)row * r.stretches;
    Summary sum = NOTHING;
    for (u32 i = mine * each; i < min((mine + 1) * each, r.stretches); i++) sum = both(sum, parts[i]);
    sum = whole_block(sum, sums);
    if (mine > 0) return;
    sum.witness = r.outcomes[row].witness;
    r.outcomes[row] = sum;
}

struct Going {
    Line* lines;
    const u32* asks;
    const Summary* outcomes;
    const double* values;  // the scores by which they were chosen
    u32 round;             // that is to come
};

// Whether lines are read on. One warp for each.
KERNEL go_on(Going g) {
    Line& line = g.lines[blockIdx.x];
    const u32 known = end_of(line, g.round - 1);
    if (line.rounds < g.round - 1 || known == line.most) return;
    double sum = 0.0, largest = 0.0;
    const bool by_score = line.rule == RULE_SCORE;
    if (!by_score) {
        for (u32 i = threadIdx.x; i < known; i += 32) {
            const Summary& s = g.outcomes[g.asks[line.asks + i]];
            const double below = line.rule & RULE_SURPRISAL ? (double)s.drawn_logit - s.first : s.weighted / s.total;
            const double term = fmax(log(s.total) - below, 0.0);
            sum += term;
            largest = fmax(largest, term);
        }
        sum = warp_sum(sum);
        for (int offset = 16; offset > 0; offset /= 2) largest = fmax(largest, __shfl_xor_sync(~0u, largest, offset));
    }
    // One that is read in vain does no harm; the host may round otherwise.
    if (!(line.rule & RULE_SPARE_LARGEST)) largest = 0.0;
    const bool on = by_score ? g.values[g.asks[line.asks + known]] >= line.bound
                             : sum - largest <= line.bound + 1e-9 * (1.0 + line.bound);
    if (on && threadIdx.x == 0) line.rounds = g.round;
}
