// A GPU for machines that have none: the CUDA driver, nvrtc and cublasLt, as far as lacuna calls them, on the CPU.
//
// It is slow, and strict: nothing on a stream, no copy to shared memory and no product of Hopper's happens before somebody waits for it,
// memory ends where a buffer ends, and what nobody has written is not zero. Kernels are compiled by g++ as the source they are; device.h has what a GPU has. It tells that
// it is of compute capability 8.0, or what EMULATED_CAPABILITY says, such as 90: then kernels take Hopper's way. cublasLt knows products in fp8 and
// no others, so that kernels compute those. There are as many GPUs as EMULATED_GPUS says, else one. Memory and streams
// and kernels belong to the GPU of the thread that asks for them; it is an error to copy to or from another's, or to launch there.
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <regex>
#include <sstream>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#define API extern "C" int

namespace {

constexpr int OK = 0, OUT_OF_MEMORY = 2, NOT_FOUND = 500, INVALID_CONTEXT = 201, INVALID_VALUE = 1, INVALID_DEVICE = 101, NOT_READY = 600, NOT_SUPPORTED = 15;
constexpr size_t MEMORY = size_t(16) << 30;

int capability() {
    const char* told = getenv("EMULATED_CAPABILITY");
    return told ? atoi(told) : 80;
}

int gpus() {
    const char* told = getenv("EMULATED_GPUS");
    return told ? atoi(told) : 1;
}

// The GPU of this thread; -1 before one is chosen.
thread_local int current = -1;

struct Three { unsigned x, y, z; };
struct Launch {
    Three grid, block;
    unsigned shared;
    void* arguments;
};

struct Function {
    void (*run)(const Launch&);
    size_t argument;
    int gpu;
};

struct Module {
    void* library;
    int gpu;
    std::map<std::string, Function> functions;
};

using Work = std::function<void()>;

struct Stream {
    int gpu;
    std::vector<Work> waiting;
    bool recording = false;
    std::vector<Work> recorded;

    void add(Work work) { (recording ? recorded : waiting).push_back(std::move(work)); }
    void run() {
        std::vector<Work> all = std::move(waiting);
        waiting.clear();
        for (Work& work : all) work();
    }
};

struct Event {
    std::atomic<bool> passed = true;
};

struct Buffer {
    size_t bytes;  // as many as were asked for
    int gpu;
};

std::mutex guard;
std::map<uint64_t, Buffer> buffers;  // by where they begin
std::map<int, size_t> taken;         // bytes of each GPU

// True if the bytes lie in a buffer of the stream's GPU.
bool there(uint64_t address, size_t bytes, const Stream* stream) {
    if (bytes == 0) return true;
    std::lock_guard<std::mutex> held(guard);
    auto behind = buffers.upper_bound(address);
    if (behind == buffers.begin()) return false;
    const auto& [start, buffer] = *--behind;
    return buffer.gpu == stream->gpu && address + bytes <= start + (buffer.bytes + 15) / 16 * 16;
}

// A buffer ends with a page, and the page behind it may not be touched.
size_t page() { return sysconf(_SC_PAGESIZE); }
size_t pages(size_t bytes) { return (bytes + page() - 1) / page() * page(); }

std::string folder() {
    Dl_info found;
    dladdr((void*)&folder, &found);
    std::string path = found.dli_fname;
    return path.substr(0, path.rfind('/'));
}

std::string read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

// The end of what is in brackets that open at `at`.
size_t closing(const std::string& text, size_t at) {
    bool quoted = false;
    for (int depth = 0; at < text.size(); at++) {
        if (text[at] == '"') quoted = !quoted;
        if (quoted) continue;
        depth += (text[at] == '(') - (text[at] == ')');
        if (depth == 0) return at;
    }
    return text.size() - 1;
}

// An instruction as a call: asm("add.f32 %0, %1;" : "=f"(y) : "f"(x)) becomes emulated::add_f32(y, x). Of several, the last
// one counts: the others prepare it.
std::string call(const std::string& assembly) {
    const std::regex instruction(R"((?:^|;)[\s{]*([a-z][\w.:]*)[^;]*;\}?$)");
    std::string text;
    size_t at = assembly.find('"');
    for (; assembly[at] == '"'; at = assembly.find_first_not_of(" \n", at)) {
        const size_t end = assembly.find('"', at + 1);
        text += assembly.substr(at + 1, end - at - 1);
        at = end + 1;
    }
    std::smatch found;
    if (!std::regex_search(text, found, instruction)) return "#error \"" + text + "\"";
    std::string name = found[1], operands;
    for (char& letter : name)
        if (!isalnum(letter)) letter = '_';
    for (at = assembly.find("\"(", at); at != std::string::npos; at = assembly.find("\"(", at)) {
        const size_t close = closing(assembly, at + 1);
        operands += (operands.empty() ? "" : ", ") + assembly.substr(at + 2, close - at - 2);
        at = close;
    }
    return "emulated::" + name + "(" + operands + ")";
}

// Source for a GPU, without macros, as source for the CPU.
std::string translated(std::string source) {
    const std::string bounds = "__launch_bounds__";
    for (size_t at; (at = source.find(bounds)) != std::string::npos;)
        source.erase(at, closing(source, at + bounds.size()) + 1 - at);
    std::string kernels;
    const std::regex kernel(R"(extern "C" __global__ void\s+(\w+)\((\w+\*?) \w+\) \{)");
    for (std::sregex_iterator found(source.begin(), source.end(), kernel), end; found != end; ++found) {
        const std::string name = (*found)[1], argument = (*found)[2], seen = "extern \"C\" __attribute__((visibility(\"default\"))) ";
        kernels += seen + "void run_" + name + "(const emulated::Launch& launch) { emulated::run(launch, [](void* argument) { " +
                   name + "(*(" + argument + "*)argument); }); }\n" + seen + "const size_t size_" + name + " = sizeof(" + argument +
                   ");\n";
    }
    const std::regex dynamic(R"(extern __shared__ (?:__align__\(\d+\) )?(\w+) (\w+)\[\];)");
    source = std::regex_replace(source, dynamic, "$1* $2 = ($1*)emulated::block->shared;");
    const std::regex assembly(R"(\basm(?: volatile)?\()");
    for (std::smatch found; std::regex_search(source, found, assembly);) {
        const size_t at = found.position(), end = closing(source, at + found.length() - 1);
        source.replace(at, end + 1 - at, call(source.substr(at, end + 1 - at)));
    }
    return read(folder() + "/device.h") + source + kernels;
}

struct Program {
    std::string source, log, code;
};

// A library is as long as its headers say.
size_t length(const void* image) {
    const auto* header = (const Elf64_Ehdr*)image;
    return header->e_shoff + size_t(header->e_shnum) * header->e_shentsize;
}

}  // namespace

// nvrtc

API nvrtcVersion(int* major, int* minor) { return *major = 1, *minor = 0, OK; }
API nvrtcCreateProgram(Program** program, const char* source, const char*, int, const char**, const char**) {
    return *program = new Program{source, "", ""}, OK;
}
API nvrtcDestroyProgram(Program** program) { return delete *program, OK; }
API nvrtcCompileProgram(Program* program, int count, const char** options) {
    char name[] = "/tmp/lacuna-kernels-XXXXXX";
    if (!mkdtemp(name)) return 1;
    const std::string path = name;
    std::string defines = " -D__CUDA_ARCH__=" + std::to_string(10 * capability());
    if (capability() == 90) defines += " -D__CUDA_ARCH_FEAT_SM90_ALL";
    for (int i = 0; i < count; i++) {
        const std::string option = options[i], define = "--define-macro=";
        if (option.rfind(define, 0) == 0) defines += " -D" + option.substr(define.size());
    }
    auto run = [&](const std::string& command) { return system(("cd " + path + " && " + command + " 2>> log").c_str()) == 0; };
    std::ofstream(path + "/kernels.cu") << program->source;
    bool compiled = run("g++ -E -P -x c++ kernels.cu -o plain" + defines);
    std::ofstream(path + "/kernels.cpp") << translated(read(path + "/plain"));
    compiled &= run("g++ -std=c++17 -O3 -march=native -ffp-contract=off -fno-strict-aliasing -fvisibility=hidden -w -shared -fPIC "
                    "kernels.cpp -o kernels.so");
    program->log = read(path + "/log");
    program->code = read(path + "/kernels.so");
    if (system(("rm -r " + path).c_str()) != 0) return 1;
    return compiled ? OK : 6;
}
API nvrtcGetProgramLogSize(Program* program, size_t* bytes) { return *bytes = program->log.size() + 1, OK; }
API nvrtcGetProgramLog(Program* program, char* log) { return strcpy(log, program->log.c_str()), OK; }
API nvrtcGetCUBINSize(Program* program, size_t* bytes) { return *bytes = program->code.size(), OK; }
API nvrtcGetCUBIN(Program* program, char* code) { return memcpy(code, program->code.data(), program->code.size()), OK; }

// cublasLt, of which there are products in fp8 with a scale for each row; it declines all others.

namespace {

enum { F32 = 0, BF16 = 14, E4M3 = 28 };

struct Operation {
    const float *a_scales = nullptr, *b_scales = nullptr;
};

struct Layout {
    int type;
    uint64_t rows, columns;
};

struct Heuristic {
    uint64_t algorithm[8];
    size_t memory;
    int state;
    float waves;
    int reserved[4];
};

float from_e4m3(uint8_t bits) {
    const int exponent = bits >> 3 & 15, fraction = bits & 7;
    const float size = exponent ? ldexpf(8 + fraction, exponent - 10) : ldexpf(fraction, -9);
    return bits >> 7 ? -size : size;
}

}  // namespace

extern "C" size_t cublasLtGetVersion() { return 120900; }
API cublasLtCreate(void** handle) { return *handle = malloc(1), OK; }
API cublasLtDestroy(void* handle) { return free(handle), OK; }
API cublasLtMatmulDescCreate(Operation** made, int, int) { return *made = new Operation(), OK; }
API cublasLtMatmulDescDestroy(Operation* made) { return delete made, OK; }
API cublasLtMatmulDescSetAttribute(Operation* operation, int attribute, const void* value, size_t) {
    constexpr int A_SCALES = 17, B_SCALES = 18;
    if (attribute == A_SCALES) operation->a_scales = *(const float* const*)value;
    if (attribute == B_SCALES) operation->b_scales = *(const float* const*)value;
    return OK;
}
API cublasLtMatrixLayoutCreate(Layout** made, int type, uint64_t rows, uint64_t columns, int64_t) {
    return *made = new Layout{type, rows, columns}, OK;
}
API cublasLtMatrixLayoutDestroy(Layout* made) { return delete made, OK; }
API cublasLtMatmulPreferenceCreate(void** made) { return *made = malloc(1), OK; }
API cublasLtMatmulPreferenceDestroy(void* made) { return free(made), OK; }
API cublasLtMatmulPreferenceSetAttribute(void*, int, const void*, size_t) { return OK; }
API cublasLtMatmulAlgoGetHeuristic(void*, Operation*, const Layout* a, void*, void*, void*, void*, int, Heuristic* found, int* count) {
    if (a->type != E4M3) return *count = 0, NOT_SUPPORTED;
    return found[0] = {}, *count = 1, OK;
}
// d = transposed a * b + beta * d: all of them are in columns.
API cublasLtMatmul(void*, const Operation* operation, const float*, const uint8_t* a, const Layout* a_layout, const uint8_t* b,
                   const Layout* b_layout, const float* beta, const void*, const void*, void* d, const Layout* d_layout, const void*,
                   void*, size_t, Stream* stream) {
    const Operation its = *operation;
    const uint64_t k = a_layout->rows, n = a_layout->columns, m = b_layout->columns;
    const bool is_f32 = d_layout->type == F32;
    const float kept = *beta;
    stream->add([=] {
        for (uint64_t at = 0; at < m * n; at++) {
            float sum = 0.0f;
            for (uint64_t i = 0; i < k; i++) sum += from_e4m3(a[at % n * k + i]) * from_e4m3(b[at / n * k + i]);
            sum *= its.a_scales[at % n] * its.b_scales[at / n];
            if (is_f32) {
                float& output = ((float*)d)[at];
                output = sum + (kept == 0.0f ? 0.0f : kept * output);
            } else {
                uint32_t bits;
                memcpy(&bits, &sum, 4);
                ((uint16_t*)d)[at] = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
            }
        }
    });
    return OK;
}

// The driver

API cuInit(unsigned) { return OK; }
API cuDriverGetVersion(int* version) { return *version = 1000, OK; }
API cuGetErrorName(int, const char** text) { return *text = "CUDA_ERROR", OK; }
API cuGetErrorString(int, const char** text) { return *text = "the emulated GPU cannot do this", OK; }
API cuDeviceGet(int* device, int number) { return number < gpus() ? (*device = number, OK) : INVALID_DEVICE; }
API cuDeviceGetCount(int* count) { return *count = gpus(), OK; }
API cuDeviceGetName(char* name, int bytes, int) { return snprintf(name, bytes, "emulated GPU"), OK; }
API cuDeviceGetAttribute(int* value, int attribute, int) {
    constexpr int MULTIPROCESSORS = 16, MAJOR = 75, MINOR = 76;
    switch (attribute) {
        case MULTIPROCESSORS: return *value = 2, OK;
        case MAJOR: return *value = capability() / 10, OK;
        case MINOR: return *value = capability() % 10, OK;
        default: return *value = 0, OK;
    }
}
API cuDevicePrimaryCtxRetain(void** context, int gpu) { return *context = (void*)(intptr_t)(gpu + 1), OK; }
API cuDevicePrimaryCtxRelease_v2(int) { return OK; }
API cuCtxSetCurrent(void* context) { return current = int((intptr_t)context) - 1, OK; }
API cuCtxGetCurrent(void** context) { return *context = (void*)(intptr_t)(current + 1), OK; }
API cuCtxSynchronize() { return OK; }

API cuMemGetInfo_v2(size_t* unused, size_t* all) {
    std::lock_guard<std::mutex> held(guard);
    return *unused = MEMORY - taken[current], *all = MEMORY, OK;
}
API cuMemAlloc_v2(uint64_t* address, size_t bytes) {
    std::lock_guard<std::mutex> held(guard);
    if (current < 0) return INVALID_CONTEXT;
    if (taken[current] + bytes > MEMORY) return OUT_OF_MEMORY;
    // Kernels touch sixteen bytes at a time.
    const size_t rounded = (bytes + 15) / 16 * 16, length = pages(rounded);
    auto* found = (uint8_t*)mmap(nullptr, length + page(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (found == MAP_FAILED) return OUT_OF_MEMORY;
    mprotect(found + length, page(), PROT_NONE);
    *address = (uint64_t)(found + length - rounded);
    memset((void*)*address, 0xff, rounded);
    buffers[*address] = {bytes, current};
    taken[current] += bytes;
    return OK;
}
API cuMemFree_v2(uint64_t address) {
    std::lock_guard<std::mutex> held(guard);
    const auto [bytes, gpu] = buffers.at(address);
    const size_t length = pages((bytes + 15) / 16 * 16);
    munmap((void*)(address / page() * page()), length + page());
    buffers.erase(address);
    taken[gpu] -= bytes;
    return OK;
}
API cuMemHostAlloc(void** address, size_t bytes, unsigned) { return *address = malloc(bytes), OK; }
API cuMemFreeHost(void* address) { return free(address), OK; }
API cuMemsetD8Async(uint64_t to, unsigned char value, size_t bytes, Stream* stream) {
    if (!there(to, bytes, stream)) return INVALID_VALUE;
    return stream->add([=] { memset((void*)to, value, bytes); }), OK;
}
API cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t bytes, Stream* stream) {
    if (!there(to, bytes, stream)) return INVALID_VALUE;
    return stream->add([=] { memcpy((void*)to, from, bytes); }), OK;
}
API cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, Stream* stream) {
    return stream->add([=] { memcpy((void*)to, (const void*)from, bytes); }), OK;
}
API cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t bytes, Stream* stream) {
    if (!there(from, bytes, stream)) return INVALID_VALUE;
    // Until somebody waits, what is there is no answer.
    memset(to, 0xff, bytes);
    return stream->add([=] { memcpy(to, (const void*)from, bytes); }), OK;
}

API cuStreamCreate(Stream** stream, unsigned) { return *stream = new Stream{current}, OK; }
API cuStreamDestroy_v2(Stream* stream) { return delete stream, OK; }
API cuStreamSynchronize(Stream* stream) { return stream->run(), OK; }
API cuStreamBeginCapture_v2(Stream* stream, int) { return stream->recording = true, OK; }
API cuStreamEndCapture(Stream* stream, std::vector<Work>** graph) {
    stream->recording = false;
    *graph = new std::vector<Work>(std::move(stream->recorded));
    stream->recorded.clear();
    return OK;
}
API cuGraphInstantiateWithFlags(std::vector<Work>** made, std::vector<Work>* graph, uint64_t) {
    return *made = new std::vector<Work>(*graph), OK;
}
API cuGraphLaunch(std::vector<Work>* graph, Stream* stream) {
    if (current != stream->gpu) return INVALID_CONTEXT;
    for (Work& work : *graph) stream->add(work);
    return OK;
}
API cuGraphDestroy(std::vector<Work>* graph) { return delete graph, OK; }
API cuGraphExecDestroy(std::vector<Work>* graph) { return delete graph, OK; }

API cuEventCreate(Event** event, unsigned) { return *event = new Event(), OK; }
API cuEventDestroy_v2(Event* event) { return delete event, OK; }
API cuEventRecord(Event* event, Stream* stream) {
    event->passed = false;
    return stream->add([=] { event->passed = true; }), OK;
}
API cuEventQuery(Event* event) { return event->passed ? OK : NOT_READY; }
API cuEventElapsedTime(float* milliseconds, Event*, Event*) { return *milliseconds = 1.0f, OK; }

API cuModuleLoadData(Module** module, const void* image) {
    const int file = memfd_create("kernels", 0);
    const size_t bytes = length(image);
    if (write(file, image, bytes) != (ssize_t)bytes) return NOT_FOUND;
    // It stays open: the linker knows libraries by their paths.
    const std::string path = "/proc/self/fd/" + std::to_string(file);
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) return fprintf(stderr, "emulated GPU: %s\n", dlerror()), NOT_FOUND;
    return *module = new Module{library, current, {}}, OK;
}
API cuModuleUnload(Module*) {
    // Its threads live on.
    return OK;
}
API cuModuleGetFunction(Function** function, Module* module, const char* name) {
    auto run = (void (*)(const Launch&))dlsym(module->library, (std::string("run_") + name).c_str());
    auto size = (const size_t*)dlsym(module->library, (std::string("size_") + name).c_str());
    if (!run || !size) return NOT_FOUND;
    module->functions[name] = {run, *size, module->gpu};
    return *function = &module->functions[name], OK;
}
API cuFuncSetAttribute(Function*, int, int) { return OK; }
struct Config {
    unsigned grid[3], block[3], shared;
    Stream* stream;
    void* attributes;
    unsigned attribute_count;
};
// Attributes allow a kernel to begin early; it never has to.
API cuLaunchKernelEx(const Config* config, Function* function, void** arguments, void**) {
    Stream* stream = config->stream;
    if (function->gpu != stream->gpu || current != stream->gpu) return INVALID_CONTEXT;
    std::vector<char> argument((char*)arguments[0], (char*)arguments[0] + function->argument);
    auto run = function->run;
    const auto [x, y, z] = config->grid;
    const unsigned threads = config->block[0], shared = config->shared;
    stream->add([=, x = x, y = y, z = z]() mutable { run(Launch{{x, y, z}, {threads, 1, 1}, shared, argument.data()}); });
    return OK;
}
