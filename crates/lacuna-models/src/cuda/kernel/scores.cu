// Dependency scores, and ranking rows by them. The structs are in scores.rs.

KERNEL collect(Collection c) {
    const ScoreTask task = c.tasks[blockIdx.x];
    float* scores = c.scores + task.output;
    for (u32 position = threadIdx.x; position < task.length; position += blockDim.x) scores[position] = 0.0f;
    __syncthreads();
    for (u32 index = threadIdx.x; index < task.tokens; index += blockDim.x) {
        const u32 row = task.start + index, count = task.head_count ? task.head_count : c.all_heads;
        if (c.tokens[row] != c.mask) continue;
        const float* mass = c.mass + ((size_t)task.layer * c.rows + row) * c.all_heads;
        double sum = 0.0;
        for (u32 h = 0; h < count; h++) sum += mass[task.head_count ? c.heads[task.heads + h] : h];
        scores[c.positions[row]] = (float)(sum / count);
    }
}


// Rows of a ranking that have been read after so many rounds.
DEVICE u32 end_of(const ReadState& read, u32 rounds) {
    if (rounds == 0) return 0;
    u32 end = read.first;
    for (u32 round = 1; round < rounds && end < read.most; round++) end = min(end * ROUND_GROWTH, read.most);
    return end;
}

// One block for each view. A candidate's rank is the number of those before it; ties go to the lower index, and a score that is no number
// comes last, so that every rank is taken.
KERNEL rank(RankArguments r) {
    extern __shared__ double means[];
    const RankTask task = r.tasks[blockIdx.x];
    const Candidate* candidates = r.candidates + task.candidates;
    for (u32 i = threadIdx.x; i < task.count; i += blockDim.x) {
        double sum = 0.0;
        for (u32 source = 0; source < task.sources; source++)
            sum += r.scores[task.scores + source * task.tokens + candidates[i].position];
        const double mean = sum / task.sources;
        const double score = task.temperature > 0.0 ? mean / task.temperature + candidates[i].noise : mean;
        means[i] = score == score ? score : -INFINITE;
    }
    __syncthreads();
    for (u32 i = threadIdx.x; i < task.count; i += blockDim.x) {
        const double mine = means[i];
        u32 rank = 0;
        for (u32 j = 0; j < task.count; j++) rank += means[j] > mine || (means[j] == mine && j < i);
        if (rank >= task.take) continue;
        r.rows[task.slots + rank] = candidates[i].row;
        if (task.guide_slots != ABSENT) r.rows[task.guide_slots + rank] = candidates[i].guide;
        const u32 request = r.requests[r.reads[task.read].requests + rank];
        r.draws[request] = candidates[i].draw;
        r.sets[request] = candidates[i].set;
        r.chosen[request] = i;
        r.values[request] = mine;
    }
}
