// Dependency scores, and which rows to read by them.

// One dependency score for each token of a view: what Observation::dependency holds for one source.
struct Job {
    u32 layer;       // which of the layers whose mass was kept
    u32 heads;       // where its heads begin in the list
    u32 head_count;  // 0 for all
    u32 start;       // the view's first row, and how many rows are tokens
    u32 tokens;
    u32 length;      // positions
    u32 output;      // where its scores begin
};

struct Collection {
    const Job* jobs;
    const u32* heads;
    const float* mass;  // [layer][row][head]
    const u32* tokens;
    const u32* positions;
    float* scores;
    u32 rows, all_heads, mask;
};

KERNEL collect(Collection c) {
    const Job job = c.jobs[blockIdx.x];
    float* scores = c.scores + job.output;
    for (u32 position = threadIdx.x; position < job.length; position += blockDim.x) scores[position] = 0.0f;
    __syncthreads();
    for (u32 index = threadIdx.x; index < job.tokens; index += blockDim.x) {
        const u32 row = job.start + index, count = job.head_count ? job.head_count : c.all_heads;
        if (c.tokens[row] != c.mask) continue;
        const float* mass = c.mass + ((size_t)job.layer * c.rows + row) * c.all_heads;
        double sum = 0.0;
        for (u32 h = 0; h < count; h++) sum += mass[job.head_count ? c.heads[job.heads + h] : h];
        scores[c.positions[row]] = (float)(sum / count);
    }
}

#define RULE_SCORE 0
#define RULE_ENTROPY 1
#define RULE_SURPRISAL 2
#define RULE_SPARE_LARGEST 4  // beside one of the last two: the largest term is left out of the sum

// Rows of a view that are read one after the other, in rounds, each four times as far as the one before, for as long as it takes.
struct Line {
    double bound;     // it is read on until the sum exceeds this, or scores fall below it
    u32 rule;         // RULE_*
    u32 asks;         // where the numbers of its asks begin in the list
    u32 first, most;  // how many are read in the first round, and in all
    u32 rounds;       // that are read
};

DEVICE u32 end_of(const Line& line, u32 rounds) { return rounds ? min(line.first << 2 * (rounds - 1), line.most) : 0; }

// A view whose rows are read by their scores.
struct Choice {
    double temperature;  // what scores are divided by, before noise is added; 0 if there is none
    u32 scores;          // where those of its first source begin; those of the next lie `tokens` behind
    u32 tokens;
    u32 sources;
    u32 candidates;      // where they begin in the list
    u32 count;
    u32 take;            // how many are chosen
    u32 slots;           // where their rows go
    u32 guide_slots;     // where the rows to push away from go, or ~0
    u32 line;            // which gets to know the rows
};

struct Candidate {
    u32 position;
    u32 row;       // which predicts it
    u32 guide;     // the row to push away from, or ~0
    u64 draw;      // where its random numbers come from
    double noise;  // for its score
};

struct Choosing {
    const Choice* choices;
    const Candidate* candidates;
    const float* scores;
    const Line* lines;
    const u32* asks;
    u32* rows;       // the chosen ones, the highest score first
    u64* draws;
    u32* chosen;     // for each ask, the number of the candidate
    double* values;  // and its score
};

// One block for each view. A candidate's rank is the number of those before it; of equals the first comes first.
KERNEL choose(Choosing c) {
    extern __shared__ double means[];
    const Choice choice = c.choices[blockIdx.x];
    const Candidate* candidates = c.candidates + choice.candidates;
    for (u32 i = threadIdx.x; i < choice.count; i += blockDim.x) {
        double sum = 0.0;
        for (u32 source = 0; source < choice.sources; source++)
            sum += c.scores[choice.scores + source * choice.tokens + candidates[i].position];
        const double mean = sum / choice.sources;
        means[i] = choice.temperature > 0.0 ? mean / choice.temperature + candidates[i].noise : mean;
    }
    __syncthreads();
    for (u32 i = threadIdx.x; i < choice.count; i += blockDim.x) {
        const double mine = means[i];
        u32 rank = 0;
        for (u32 j = 0; j < choice.count; j++) rank += means[j] > mine || (means[j] == mine && j < i);
        if (rank >= choice.take) continue;
        c.rows[choice.slots + rank] = candidates[i].row;
        if (choice.guide_slots != ~0u) c.rows[choice.guide_slots + rank] = candidates[i].guide;
        const u32 ask = c.asks[c.lines[choice.line].asks + rank];
        c.draws[ask] = candidates[i].draw;
        c.chosen[ask] = i;
        c.values[ask] = mine;
    }
}
