// Beliefs from logits. A row of logits is cut into stretches, and a stretch into segments, which are summed up as soon as they
// are known; then segments and stretches are merged. All sums run in an order that does not depend on the rows. The structs are
// in belief.rs.

#define SEGMENT 32
#define MERGERS 128

DEVICE bool is_read(const Reading& r, u32 row) {
    const u32 read = r.specs[row].read;
    return read == ABSENT || r.reads[read].rounds >= r.round;
}

#define NOTHING Summary{0.0, 0.0, 0.0, -INFINITE, -INFINITE, ABSENT, 0.0f, -INFINITE, ABSENT, -INFINITE}

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
        sum.divergence += factor * low.divergence;
        sum.second = fmaxf(sum.second, low.first);
    }
    sum.weight = drawn ? b.weight : a.weight;
    sum.drawn = drawn ? b.drawn : a.drawn;
    sum.drawn_logit = drawn ? b.drawn_logit : a.drawn_logit;
    return sum;
}

// A bijection of 64 bits, a row's random draws, and Gumbel noise, as the core has them.
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
    return {__shfl_xor_sync(~0u, s.total, apart), __shfl_xor_sync(~0u, s.weighted, apart), __shfl_xor_sync(~0u, s.divergence, apart),
            __shfl_xor_sync(~0u, s.first, apart), __shfl_xor_sync(~0u, s.second, apart), __shfl_xor_sync(~0u, s.token, apart),
            0.0f, __shfl_xor_sync(~0u, s.weight, apart), __shfl_xor_sync(~0u, s.drawn, apart),
            __shfl_xor_sync(~0u, s.drawn_logit, apart)};
}

// A token's term of the divergence from the history, to be weighted with its probability. The same logit as before should
// add nothing.
DEVICE double divergence_term(const RowSpec& spec, u32 token, double now) {
    const double before = spec.history[token];
    const float probability = expf((float)(before - spec.history_log_total));
    return probability > 1e-6f ? now - before - 1e-12 / probability : now - spec.history_log_total - logf(probability + 1e-12f);
}

// Sums up one segment of a row, whose logits lie in shared memory, where they are divided by the temperature, and those of
// tokens that are not allowed lost. Tokens are taken in turn, each segment beginning with another one: so threads that take neighbouring segments use different banks.
DEVICE Summary sum_up(const Reading& r, u32 row, const RowSpec& spec, u32 stretch, u32 segment, float* logits) {
    // Of the last segments nothing may be left.
    const u32 begin = stretch * STRETCH + segment * SEGMENT, end = max(begin, min(begin + SEGMENT, r.vocabulary));
    bool nan = false;
    const u32 allowed = begin < end ? r.allowed[(size_t)r.sets[row] * ((r.vocabulary + 31) / 32) + begin / 32] : ~0u;
    for (u32 at = 0; allowed != ~0u && at < end - begin; at++) {
        if (allowed >> at & 1) continue;
        nan |= isnan(logits[at]);
        logits[at] = -INFINITE;
    }
    if (spec.temperature != 1.0)
        for (u32 at = 0; at < end - begin; at++) logits[at] = (float)((double)logits[at] / spec.temperature);
    if (spec.scored_token >= begin && spec.scored_token < end) r.outcomes[row].scored = logits[spec.scored_token - begin];
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
    if (spec.compare && !spec.second_pass && sum.first > -INFINITE) {
        for (u32 at = 0; at < end - begin; at++) {
            if (logits[at] == -INFINITE) continue;
            sum.divergence += divergence_term(spec, begin + at, logits[at]) * expf(fmaxf(logits[at] - sum.first, -88.0f));
        }
    }
    // Infinity minus itself is no number either.
    sum.total = nan || sum.first == INFINITE ? __longlong_as_double(0x7ff8000000000000ll) : (double)total;
    sum.weighted = weighted;
    sum.weight = sum.first;
    sum.drawn = sum.token;
    sum.drawn_logit = sum.first;
    if (spec.gumbel > 0.0 && !spec.second_pass) {
        const u64 draw = r.draws[row];
        sum.weight = -INFINITE;
        for (u32 token = begin; token < end; token++) {
            const float logit = logits[token - begin];
            if (logit == -INFINITE) continue;
            const double weight = (double)logit + spec.gumbel * gumbel(draw, token);
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
    const RowSpec spec = r.specs[row];
    if (spec.guide == ABSENT || !is_read(r, row)) return;
    if (token < r.vocabulary) {
        const float unguided = r.specs[spec.guide].logits[token];
        logits[threadIdx.x] = __fadd_rn(unguided, __fmul_rn(spec.guidance + 1.0f, spec.logits[token] - unguided));
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        const u32 segment = threadIdx.x % (STRETCH / SEGMENT);
        Summary sum = NOTHING;
        if (threadIdx.x == segment) sum = sum_up(r, row, spec, stretch, segment, logits + segment * SEGMENT);
        sum = whole_stretch(sum);
        if (threadIdx.x == 0) r.parts[(size_t)row * r.stretches + stretch] = sum;
    }
    __syncthreads();
    float* target = spec.second_pass ? spec.logits : spec.history;
    if (token < r.vocabulary && target) target[token] = logits[threadIdx.x];
}

// Merges the summaries of all threads of a block, neighbours first. The first thread gets the result.
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
    if (r.specs[row].logits_only || !is_read(r, row)) return;
    const Summary* parts = r.parts + (size_t)row * r.stretches;
    Summary sum = NOTHING;
    for (u32 i = mine * each; i < min((mine + 1) * each, r.stretches); i++) sum = both(sum, parts[i]);
    sum = whole_block(sum, sums);
    if (mine > 0) return;
    sum.scored = r.outcomes[row].scored;
    r.outcomes[row] = sum;
}

// Decides which rankings are read on. One warp for each.
KERNEL continue_reads(Continue c) {
    ReadState& read = c.reads[blockIdx.x];
    const u32 known = end_of(read, c.round - 1);
    if (read.rounds < c.round - 1 || known == read.most) return;
    double sum = 0.0, largest = 0.0;
    const bool by_score = read.rule == RULE_SCORE;
    if (!by_score) {
        for (u32 i = threadIdx.x; i < known; i += 32) {
            const Summary& s = c.outcomes[c.requests[read.requests + i]];
            const double below = read.rule & RULE_SURPRISAL ? (double)s.drawn_logit - s.first : s.weighted / s.total;
            const double term = fmax(log(s.total) - below, 0.0);
            sum += term;
            largest = fmax(largest, term);
        }
        sum = warp_sum(sum);
        for (int offset = 16; offset > 0; offset /= 2) largest = fmax(largest, __shfl_xor_sync(~0u, largest, offset));
    }
    // A row that is read in vain does no harm; the host may round otherwise.
    if (!(read.rule & RULE_SPARE_LARGEST)) largest = 0.0;
    const bool on = by_score ? c.values[c.requests[read.requests + known]] >= read.bound
                             : sum - largest <= read.bound + 1e-9 * (1.0 + read.bound);
    if (on && threadIdx.x == 0) read.rounds = c.round;
}
