// A second pass over rows whose logits are known: only the most probable tokens count (top-p, top-k), and deferred ones have
// no probability.

#define REVIEWERS 512
#define MEMBERS (REVIEWERS * sizeof(Summary) / sizeof(float))

// An integer that ascends with the logit.
DEVICE u32 ordinal(float logit) {
    const u32 bits = __float_as_uint(logit + 0.0f);  // There is one zero.
    return bits >> 31 ? ~bits : bits | 1u << 31;
}
DEVICE float logit_of(u32 ordinal) { return __uint_as_float(ordinal >> 31 ? ordinal & ~(1u << 31) : ~ordinal); }

// Weights are whole multiples of this share of the largest, so that the order of additions does not matter.
#define QUANTUM (1.0f / (1ull << 44))

// The ordinal of the lowest logit that counts: of those above it there are fewer than `most`, and together they have no more than
// `share` of all weight. It is searched for by halves, in the whole row until what may be the lowest fits into shared memory.
DEVICE u32 lowest(const RowSpec& spec, const Summary& whole, u32 vocabulary, float* members) {
    __shared__ u32 gathered;
    const u64 allowed = (u64)(spec.top_p * whole.total / QUANTUM);
    const float* logits = spec.logits;
    const u32 bottom = ordinal(-INFINITE);
    u32 low = bottom, high = ordinal(whole.first), length = vocabulary;
    u64 weight_above = 0;                       // of what is above `high`
    u32 count_above = 0, between = vocabulary;  // `between` are in low..=high
    // Tokens that have less than an even part of what need not count do not, and hardly any that have less than e^-64.
    const float part = (1.0 - spec.top_p) * whole.total / vocabulary;
    u32 middle = min(ordinal(whole.first + fmaxf(logf(part), -64.0f) - 1e-3f), high - 1);
    while (low < high) {
        if (length > MEMBERS && between <= MEMBERS) {
            __syncthreads();
            if (threadIdx.x == 0) gathered = 0;
            __syncthreads();
            for (u32 i = threadIdx.x; i < length; i += blockDim.x) {
                const u32 mine = ordinal(logits[i]);
                if (mine >= low && mine <= high) members[atomicAdd(&gathered, 1u)] = logits[i];
            }
            __syncthreads();
            logits = members;
            length = between;
        }
        u64 weight = 0;
        u32 count = 0;
#pragma unroll 8
        for (u32 i = threadIdx.x; i < length; i += blockDim.x) {
            const u32 mine = ordinal(logits[i]);
            if (mine <= middle || mine > high) continue;
            weight += (u64)(expf(logits[i] - whole.first) / QUANTUM);
            count++;
        }
        weight = block_sum(weight);
        count = block_sum(count);
        if (weight_above + weight <= allowed && count_above + count < spec.top_k) {
            high = middle;
            weight_above += weight;
            count_above += count;
            between -= count;
        } else {
            low = middle + 1;
            between = count;
        }
        // Half of the way between the logits, not between their ordinals, of which most are those of very small numbers.
        const u32 half = low > bottom ? ordinal(0.5f * (logit_of(low) + logit_of(high))) : low + (high - low) / 2;
        middle = max(low, min(half, high - 1));
    }
    return high;
}

KERNEL __launch_bounds__(REVIEWERS) truncate_rows(Reading r) {
    __shared__ Summary sums[REVIEWERS];
    const u32 row = blockIdx.x;
    const RowSpec spec = r.specs[row];
    const Summary whole = r.outcomes[row];
    // Of what is no distribution nothing more is to be said.
    if (!spec.second_pass || !is_read(r, row) || !(whole.total > 0.0)) return;
    const bool truncated = spec.top_p < 1.0 || spec.top_k != ABSENT;
    const u32 floor = truncated ? lowest(spec, whole, r.vocabulary, (float*)sums) : 0;
    auto counted = [&](u32 token) { return ordinal(spec.logits[token]) >= floor ? spec.logits[token] : -INFINITE; };
    auto deferred = [&](u32 token) {
        bool found = false;
        for (u32 i = 0; i < spec.deferred_count; i++) found |= r.tokens[spec.deferred + i] == token;
        return found;
    };
    // Where there are none but deferred tokens, they have their probability.
    bool defers = spec.deferred_count > 0;
    auto kept = [&](u32 token) { return defers && deferred(token) ? -INFINITE : counted(token); };
    Summary sum;
    for (u32 again = 0; again < 2; again++) {
        sum = NOTHING;
        for (u32 token = threadIdx.x; token < r.vocabulary; token += blockDim.x) {
            const float drawn = counted(token);
            if (drawn == -INFINITE) continue;
            Summary one = NOTHING;
            one.weight = drawn + (spec.gumbel > 0.0 ? spec.gumbel * gumbel(r.draws[row], token) : 0.0);
            one.drawn = token;
            one.drawn_logit = kept(token);
            if (one.drawn_logit > -INFINITE) {
                one.total = 1.0;
                one.first = one.drawn_logit;
                one.token = token;
                if (spec.compare) one.divergence = divergence_term(spec, token, one.drawn_logit);
            }
            sum = both(sum, one);
        }
        sum = whole_block(sum, sums);
        __syncthreads();
        if (sums[0].total > 0.0) break;
        defers = false;
        __syncthreads();
    }
    if (spec.history) {
        for (u32 token = threadIdx.x; token < r.vocabulary; token += blockDim.x) spec.history[token] = kept(token);
    }
    if (threadIdx.x > 0) return;
    if (spec.scored_token != ABSENT) sum.scored = kept(spec.scored_token);
    r.outcomes[row] = sum;
}
