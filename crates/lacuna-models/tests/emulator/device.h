// What kernels find on a GPU, on the CPU: put in front of their source. The threads of a block take turns, each until it must
// wait for others, so that everything happens in an order that never changes.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <algorithm>
#include <array>
#include <functional>
#include <tuple>
#include <utility>
#include <vector>
#include <sys/mman.h>
#include <ucontext.h>

using std::isnan;
using std::max;
using std::min;

struct uint2 { unsigned x, y; };
struct alignas(16) float4 { float x, y, z, w; };
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

namespace emulated {

struct Three { unsigned x, y, z; };

struct Launch {
    Three grid, block;
    unsigned shared;
    void* arguments;
};

[[noreturn]] inline void fail(const char* why) {
    fprintf(stderr, "emulated GPU: %s\n", why);
    abort();
}

// Threads that wait until all that are still there have arrived.
struct Barrier {
    unsigned expected, arrived, generation;

    void release() { arrived = 0, generation++; }
    void leave() {
        if (--expected > 0 && arrived == expected) release();
    }
};

// What a copy that was begun will write, once it is waited for.
struct Copy {
    void* to;
    const void* from;
    int bytes;
};

// Where a thread goes on.
using State = void*[5];
[[gnu::noinline]] inline void go_on(State& state) { __builtin_longjmp(state, 1); }

constexpr unsigned LANES = 32, MOST_THREADS = 1024, STACK = 1 << 16, MOST_SHARED = 1 << 18;

struct Thread {
    ucontext_t start;
    State state;
    bool started, done;
    const Barrier* waits;
    unsigned generation;
    std::vector<Copy> copies;
    std::vector<size_t> groups;  // of copies: where each ends
    std::vector<std::function<void()>> products;
    std::vector<size_t> product_groups;
};

// What a lane shows to the others of its warp. Two, so that none is overwritten before all have seen it.
struct Warp {
    Barrier barrier;
    alignas(16) unsigned char shown[2][LANES][32];
};

struct Block {
    Launch launch;
    void (*kernel)(void*);
    Three index;
    Three thread;
    Barrier barrier;
    Barrier teams[16];
    Warp warps[MOST_THREADS / LANES];
    Thread threads[MOST_THREADS];
    State scheduler;
    unsigned char* shared;
    char* stacks;

    Thread& current() { return threads[thread.x]; }
    Warp& warp() { return warps[thread.x / LANES]; }

    void wait(Barrier& barrier) {
        Thread& mine = current();
        mine.generation = barrier.generation;
        if (++barrier.arrived == barrier.expected) return barrier.release();
        mine.waits = &barrier;
        rest();
        mine.waits = nullptr;
    }

    // Lets others have their turn.
    [[gnu::noinline]] void rest() {
        if (!__builtin_setjmp(current().state)) go_on(scheduler);
    }

    [[gnu::noinline]] void resume(unsigned number) {
        thread.x = number;
        Thread& mine = threads[number];
        if (__builtin_setjmp(scheduler)) return;
        if (mine.started) go_on(mine.state);
        mine.started = true;
        setcontext(&mine.start);
    }

    bool can_go_on(const Thread& thread) {
        return !thread.done && (!thread.waits || thread.waits->generation != thread.generation);
    }

    void run() {
        const unsigned count = launch.block.x;
        barrier = {count, 0, 0};
        for (Barrier& team : teams) team = {128, 0, 0};
        for (unsigned number = 0; number < count; number++) {
            if (number % LANES == 0) warps[number / LANES].barrier = {std::min(LANES, count - number), 0, 0};
            Thread& thread = threads[number];
            thread.done = false;
            thread.waits = nullptr;
            thread.copies.clear();
            thread.groups.clear();
            thread.product_groups.clear();
        }
        while (barrier.expected > 0) {
            bool any = false;
            for (unsigned first = 0; first < count; first += LANES)
                for (bool again = true; again; any |= again) {
                    again = false;
                    for (unsigned number = first; number < std::min(first + LANES, count); number++)
                        if (can_go_on(threads[number])) resume(number), again = true;
                }
            if (!any) fail("all threads of a block wait");
        }
    }
};

inline thread_local Block* block;

// A thread lives on: when the kernel is done, it waits for the next block.
inline void live() {
    for (;;) {
        block->kernel(block->launch.arguments);
        if (!block->current().products.empty()) fail("nobody waits for a product");
        block->current().done = true;
        block->warp().barrier.leave();
        block->barrier.leave();
        block->rest();
    }
}

inline void* pages(size_t bytes, int flags) {
    void* found = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    if (found == MAP_FAILED) fail("no memory");
    return found;
}

inline void prepare() {
    if (block) return;
    block = new Block();
    block->stacks = (char*)pages((size_t)MOST_THREADS * STACK, MAP_NORESERVE);
    block->shared = (unsigned char*)pages(MOST_SHARED, 0);
    for (unsigned number = 0; number < MOST_THREADS; number++) {
        ucontext_t& start = block->threads[number].start;
        getcontext(&start);
        start.uc_stack.ss_sp = block->stacks + (size_t)number * STACK;
        start.uc_stack.ss_size = STACK;
        start.uc_link = nullptr;
        makecontext(&start, live, 0);
    }
}

inline void run(const Launch& launch, void (*kernel)(void*)) {
    prepare();
    if (launch.block.x > MOST_THREADS || launch.shared > MOST_SHARED) fail("a block is too large");
    block->launch = launch;
    block->kernel = kernel;
    for (unsigned y = 0; y < launch.grid.y; y++)
        for (unsigned x = 0; x < launch.grid.x; x++) {
            block->index = {x, y, 0};
            // What another block left behind is not to be relied on.
            memset(block->shared, 0xff, launch.shared);
            block->run();
        }
}

// What all lanes of the warp show.
template <typename T> const T& seen(unsigned generation, unsigned lane) {
    return *(const T*)block->warp().shown[generation % 2][lane];
}
template <typename T> unsigned show(const T& mine) {
    static_assert(sizeof(T) <= sizeof(Warp::shown[0][0]));
    Warp& warp = block->warp();
    const unsigned generation = warp.barrier.generation;
    memcpy(warp.shown[generation % 2][block->thread.x % LANES], &mine, sizeof(T));
    block->wait(warp.barrier);
    return generation;
}

template <typename To, typename From> To bits(From from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    memcpy(&to, &from, sizeof(To));
    return to;
}

inline uint16_t to_bf16(float x) {
    const uint32_t all = bits<uint32_t>(x);
    if (isnan(x)) return 0x7fff;
    return (all + 0x7fff + (all >> 16 & 1)) >> 16;
}
inline float from_bf16(uint32_t x) { return bits<float>(x << 16); }

// What lies at an address of shared memory, which instructions count from its start.
inline unsigned char* shared_at(unsigned address, unsigned bytes) {
    if (address % bytes || address + bytes > block->launch.shared) fail("an address is not aligned, or not in shared memory");
    return block->shared + address;
}

// The instructions that kernels name.

inline void cvt_rn_bf16x2_f32(unsigned& packed, float high, float low) {
    packed = (unsigned)to_bf16(high) << 16 | to_bf16(low);
}
inline void fma_rn_bf16x2(unsigned& sum, unsigned a, unsigned b, unsigned c) {
    auto half = [&](unsigned shift) {
        auto wide = [&](unsigned pair) { return from_bf16(pair >> shift & 0xffff); };
        return (unsigned)to_bf16(fmaf(wide(a), wide(b), wide(c))) << shift;
    };
    sum = half(0) | half(16);
}
// One half of a pair twice.
inline void mov_b32(unsigned& both, unsigned pair, int half) { both = (half ? pair >> 16 : pair & 0xffff) * 0x10001; }
inline void cvt_f32_f16(float& value, uint16_t half) { value = (float)bits<_Float16>(half); }

// The nearest of e4m3's values, to the even one of two.
inline uint8_t to_e4m3(float x) {
    const float size = std::min(fabsf(x), 448.0f), step = ldexpf(1.0f, std::max(ilogbf(size), -6) - 3);
    const float rounded = nearbyintf(size / step) * step;
    const int exponent = std::max(rounded > 0.0f ? ilogbf(rounded) : -6, -6);
    const int fraction = (int)(ldexpf(rounded, 3 - exponent));
    return (std::signbit(x) ? 0x80 : 0) | (fraction < 8 ? fraction : (exponent + 7) << 3 | (fraction - 8));
}
inline void cvt_rn_satfinite_e4m3x2_f32(uint16_t& pair, float high, float low) {
    pair = (uint16_t)(to_e4m3(high) << 8 | to_e4m3(low));
}
inline void ex2_approx_ftz_f32(float& y, float x) { y = exp2f(x); }

inline void cp_async_cg_shared_global(unsigned to, const void* from, int bytes) {
    if ((uintptr_t)from % 16) fail("a copy is not aligned");
    block->current().copies.push_back({shared_at(to, 16), from, bytes});
}
inline void bar_sync(unsigned team, unsigned threads) {
    if (threads != 128) fail("teams of other than 128 threads are not emulated");
    block->wait(block->teams[team]);
}
// Blocks never run at once.
inline void griddepcontrol_launch_dependents() {}
inline void griddepcontrol_wait() {}

inline void cp_async_commit_group() { block->current().groups.push_back(block->current().copies.size()); }
inline void cp_async_wait_group(size_t pending) {
    auto& copies = block->current().copies;
    auto& groups = block->current().groups;
    if (groups.size() <= pending) return;
    const size_t arrived = groups.size() - pending, end = groups[arrived - 1];
    for (size_t i = 0; i < end; i++) {
        memset(copies[i].to, 0, 16);
        memcpy(copies[i].to, copies[i].from, copies[i].bytes);
    }
    copies.erase(copies.begin(), copies.begin() + end);
    groups.erase(groups.begin(), groups.begin() + arrived);
    for (size_t& group : groups) group -= end;
}

inline void load_matrices(unsigned* (&m)[4], unsigned address, bool transposed) {
    const unsigned char* mine = shared_at(address, 16);
    const unsigned all = show(mine), lane = block->thread.x % LANES, row = lane / 4, pair = lane % 4 * 2;
    for (unsigned i = 0; i < 4; i++) {
        auto entry = [&](unsigned row, unsigned column) {
            return (unsigned)((const uint16_t*)seen<const unsigned char*>(all, i * 8 + row))[column];
        };
        *m[i] = transposed ? entry(pair, row) | entry(pair + 1, row) << 16 : entry(row, pair) | entry(row, pair + 1) << 16;
    }
}
inline void ldmatrix_sync_aligned_m8n8_x4_shared_b16(unsigned& a, unsigned& b, unsigned& c, unsigned& d, unsigned address) {
    unsigned* m[4] = {&a, &b, &c, &d};
    load_matrices(m, address, false);
}
inline void ldmatrix_sync_aligned_m8n8_x4_trans_shared_b16(unsigned& a, unsigned& b, unsigned& c, unsigned& d, unsigned address) {
    unsigned* m[4] = {&a, &b, &c, &d};
    load_matrices(m, address, true);
}

struct Fragments { unsigned a[4], b[2]; };

inline void mma_sync_aligned_m16n8k16_row_col_f32_bf16_bf16_f32(
        float& s0, float& s1, float& s2, float& s3, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
    const unsigned all = show(Fragments{{a0, a1, a2, a3}, {b0, b1}}), lane = block->thread.x % LANES;
    auto half = [](unsigned pair, unsigned i) { return from_bf16(i % 2 ? pair >> 16 : pair & 0xffff); };
    auto a = [&](unsigned row, unsigned k) {
        return half(seen<Fragments>(all, row % 8 * 4 + k % 8 / 2).a[row / 8 + k / 8 * 2], k);
    };
    auto b = [&](unsigned k, unsigned column) {
        return half(seen<Fragments>(all, column * 4 + k % 8 / 2).b[k / 8], k);
    };
    float* sums[4] = {&s0, &s1, &s2, &s3};
    for (unsigned i = 0; i < 4; i++)
        for (unsigned k = 0; k < 16; k++) *sums[i] += a(lane / 4 + i / 2 * 8, k) * b(k, lane % 4 * 2 + i % 2);
}

// Hopper's products, of four warps: sums[64][n] (+)= a[64][16] * b[16][n]. They read memory and registers when they are waited for, no sooner:
// what was overwritten meanwhile is in them.

inline void fence_proxy_async_shared__cta() {}
inline void wgmma_fence_sync_aligned() {}
inline void wgmma_commit_group_sync_aligned() { block->current().product_groups.push_back(block->current().products.size()); }
inline void wgmma_wait_group_sync_aligned(size_t pending) {
    auto& products = block->current().products;
    auto& groups = block->current().product_groups;
    if (groups.size() <= pending) return;
    const size_t done = groups.size() - pending, end = groups[done - 1];
    for (size_t i = 0; i < end; i++) products[i]();
    products.erase(products.begin(), products.begin() + end);
    groups.erase(groups.begin(), groups.begin() + done);
    for (size_t& group : groups) group -= end;
}

// A matrix in shared memory, as its descriptor tells it: in rows of 128 bytes whose pieces are permuted.
struct Matrix {
    uint64_t told;

    float at(unsigned row, unsigned column) const {
        const unsigned start = (told & 0x3fff) << 4, columns = (told >> 16 & 0x3fff) << 4, rows = (told >> 32 & 0x3fff) << 4;
        const unsigned plain = start + column / 64 * columns + row / 8 * rows + row % 8 * 128 + column % 64 * 2;
        return from_bf16(*(const uint16_t*)shared_at(plain ^ (plain >> 7 & 7) << 4, 2));
    }
};

template <size_t N, typename A, typename B> void add_products(const std::array<float*, N>& sums, bool add, A a, B b) {
    const unsigned lane = block->thread.x % LANES, warp = block->thread.x / LANES % 4;
    for (unsigned i = 0; i < N; i++) {
        const unsigned row = warp * 16 + lane / 4 + i % 4 / 2 * 8, column = i / 4 * 8 + lane % 4 * 2 + i % 2;
        if (!add) *sums[i] = 0.0f;
        for (unsigned k = 0; k < 16; k++) *sums[i] += a(row, k) * b(k, column);
    }
}

// Both in shared memory, b transposed.
template <size_t... I, typename T> void products_of_shared(std::index_sequence<I...>, T operands) {
    constexpr size_t N = sizeof...(I);
    const std::array<float*, N> sums{&std::get<I>(operands)...};
    const Matrix a{std::get<N>(operands)}, b{std::get<N + 1>(operands)};
    const bool add = std::get<N + 2>(operands);
    block->current().products.push_back([=] {
        add_products(sums, add, [&](unsigned row, unsigned k) { return a.at(row, k); },
                     [&](unsigned k, unsigned column) { return b.at(column, k); });
    });
}
// a in registers; told last whether b lies as [k][n] instead of [n][k].
template <size_t... I, typename T> void products_of_registers(std::index_sequence<I...>, T operands) {
    constexpr size_t N = sizeof...(I);
    const std::array<float*, N> sums{&std::get<I>(operands)...};
    const std::array<const unsigned*, 4> registers{&std::get<N>(operands), &std::get<N + 1>(operands), &std::get<N + 2>(operands), &std::get<N + 3>(operands)};
    const Matrix b{std::get<N + 4>(operands)};
    const bool transposed = std::get<N + 5>(operands);
    block->current().products.push_back([=] {
        struct Registers { unsigned a[4]; };
        const unsigned shown = show(Registers{{*registers[0], *registers[1], *registers[2], *registers[3]}});
        auto a = [&](unsigned row, unsigned k) {
            const unsigned pair = seen<Registers>(shown, row % 8 * 4 + k % 8 / 2).a[row % 16 / 8 + k / 8 * 2];
            return from_bf16(k % 2 ? pair >> 16 : pair & 0xffff);
        };
        add_products(sums, true, a, [&](unsigned k, unsigned column) { return transposed ? b.at(k, column) : b.at(column, k); });
    });
}
template <size_t N, typename... T> void products(T&&... operands) {
    if constexpr (sizeof...(T) == N + 3)
        products_of_shared(std::make_index_sequence<N>(), std::tie(operands...));
    else
        products_of_registers(std::make_index_sequence<N>(), std::tie(operands...));
}
template <typename... T> void wgmma_mma_async_sync_aligned_m64n16k16_f32_bf16_bf16(T&&... operands) { products<8>(operands...); }
template <typename... T> void wgmma_mma_async_sync_aligned_m64n32k16_f32_bf16_bf16(T&&... operands) { products<16>(operands...); }
template <typename... T> void wgmma_mma_async_sync_aligned_m64n64k16_f32_bf16_bf16(T&&... operands) { products<32>(operands...); }
template <typename... T> void wgmma_mma_async_sync_aligned_m64n128k16_f32_bf16_bf16(T&&... operands) { products<64>(operands...); }

}  // namespace emulated

#define __device__
#define __global__
#define __forceinline__ inline
#define __align__(n) __attribute__((aligned(n)))
#define __shared__ static thread_local

#define threadIdx (emulated::block->thread)
#define blockIdx (emulated::block->index)
#define blockDim (emulated::block->launch.block)
#define gridDim (emulated::block->launch.grid)

inline void __syncthreads() { emulated::block->wait(emulated::block->barrier); }
inline void __syncwarp() { emulated::block->wait(emulated::block->warp().barrier); }
template <typename T> T __shfl_sync(unsigned, T mine, unsigned lane) {
    const unsigned all = emulated::show(mine);
    return emulated::seen<T>(all, lane);
}
template <typename T> T __shfl_up_sync(unsigned mask, T mine, unsigned apart) {
    const unsigned lane = threadIdx.x % emulated::LANES;
    return __shfl_sync(mask, mine, lane < apart ? lane : lane - apart);
}
template <typename T> T __shfl_xor_sync(unsigned mask, T mine, unsigned apart) {
    return __shfl_sync(mask, mine, (threadIdx.x % emulated::LANES) ^ apart);
}
template <typename Pick> unsigned reduced(unsigned mine, Pick pick) {
    const unsigned all = emulated::show(mine);
    for (unsigned lane = 0; lane < emulated::LANES; lane++) mine = pick(mine, emulated::seen<unsigned>(all, lane));
    return mine;
}
inline unsigned __reduce_max_sync(unsigned, unsigned mine) {
    return reduced(mine, [](unsigned a, unsigned b) { return max(a, b); });
}
inline unsigned __reduce_min_sync(unsigned, unsigned mine) {
    return reduced(mine, [](unsigned a, unsigned b) { return min(a, b); });
}
inline bool __any_sync(unsigned, bool mine) {
    const unsigned all = emulated::show(mine);
    bool any = false;
    for (unsigned lane = 0; lane < emulated::LANES; lane++) any |= emulated::seen<bool>(all, lane);
    return any;
}
inline size_t __cvta_generic_to_shared(const void* pointer) { return (const unsigned char*)pointer - emulated::block->shared; }
// Blocks run one after the other, so that each sees what those before it have written.
inline void __threadfence() {}
template <typename T> T __ldcg(const T* at) { return *at; }
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
    const uint64_t both = (uint64_t)high << 32 | low;
    unsigned found = 0;
    for (unsigned i = 0; i < 4; i++) found |= (unsigned)(both >> (selector >> 4 * i & 7) * 8 & 255) << 8 * i;
    return found;
}
[[noreturn]] inline void __trap() { emulated::fail("a kernel has given up"); }
template <typename T> T atomicAdd(T* at, T value) { return *at += value, *at - value; }
template <typename T> T atomicMin(T* at, T value) {
    const T before = *at;
    *at = std::min(before, value);
    return before;
}
inline float __int_as_float(int x) { return emulated::bits<float>(x); }
inline unsigned __float_as_uint(float x) { return emulated::bits<unsigned>(x); }
inline float __uint_as_float(unsigned x) { return emulated::bits<float>(x); }
inline double __longlong_as_double(long long x) { return emulated::bits<double>(x); }
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fmul_rn(float x, float y) { return x * y; }
