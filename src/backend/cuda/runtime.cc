#include "backend/cuda/runtime.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>

#include "backend/cuda/allocator.h"
#include "backend/cuda/cuda.h"
#include "base/env.h"
#include "base/error.h"
#include "tensor/device.h"

namespace mlxcel::cuda {
namespace {

struct DeviceFacts {
  std::string problem;  // empty: there is a device
  cudaDeviceProp properties{};
};

const DeviceFacts& facts() {
  static const DeviceFacts found = [] {
    DeviceFacts f;
    int count = 0;
    cudaError_t code = cudaGetDeviceCount(&count);
    if (code == cudaSuccess && count == 0) code = cudaErrorNoDevice;
    if (code == cudaSuccess) code = cudaGetDeviceProperties(&f.properties, 0);
    if (code != cudaSuccess) {
      (void)cudaGetLastError();
      f.problem = cudaGetErrorString(code);
    } else if (f.properties.major < 8) {
      f.problem = fmt::format("{} has compute capability {}.{}, at least 8.0 is needed",
                              f.properties.name, f.properties.major, f.properties.minor);
    } else if (!has_code_for(f.properties.major * 10 + f.properties.minor)) {
      f.problem = fmt::format("this build has no kernels for {} (compute capability {}.{})",
                              f.properties.name, f.properties.major, f.properties.minor);
    }
    return f;
  }();
  return found;
}

class Graph final : public DeviceGraph {
 public:
  explicit Graph(cudaGraphExec_t executable) : executable_(executable) {}
  ~Graph() override { cudaGraphExecDestroy(executable_); }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  void launch() override { MLXCEL_CUDA(cudaGraphLaunch(executable_, stream())); }

 private:
  cudaGraphExec_t executable_;
};

Allocator& allocator() {
  static auto* instance = new Allocator;  // never destroyed: buffers may outlive main
  return *instance;
}

class Runtime final : public DeviceRuntime {
 public:
  std::string name() const override {
    const cudaDeviceProp& p = facts().properties;
    return fmt::format("{} (sm_{}{}, {} GiB)", p.name, p.major, p.minor, p.totalGlobalMem >> 30);
  }
  DType activation_type() const override { return activation_type_; }

  std::shared_ptr<Buffer> allocate(int64_t bytes) override {
    Allocator::Block* block = allocator().take(bytes);
    return Buffer::adopt(
        block->data, bytes, Device{.kind = DeviceKind::Cuda, .index = 0},
        [](void*, void* context) { allocator().give(static_cast<Allocator::Block*>(context)); },
        block);
  }
  std::shared_ptr<Buffer> pinned(int64_t bytes) override {
    void* data = nullptr;
    MLXCEL_CUDA(cudaMallocHost(&data, static_cast<size_t>(bytes)));
    return Buffer::adopt(data, bytes, Device{}, [](void* d, void*) { cudaFreeHost(d); }, nullptr);
  }

  void upload(void* device, const void* host, int64_t bytes) override {
    MLXCEL_CUDA(cudaMemcpyAsync(device, host, static_cast<size_t>(bytes), cudaMemcpyHostToDevice,
                                stream()));
  }
  void download(void* host, const void* device, int64_t bytes) override {
    MLXCEL_CUDA(cudaMemcpyAsync(host, device, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost,
                                stream()));
    synchronize();
  }
  void copy(void* to, const void* from, int64_t bytes) override {
    MLXCEL_CUDA(
        cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice, stream()));
  }
  void fill(void* device, uint8_t value, int64_t bytes) override {
    MLXCEL_CUDA(cudaMemsetAsync(device, value, static_cast<size_t>(bytes), stream()));
  }
  void synchronize() override { MLXCEL_CUDA(cudaStreamSynchronize(stream())); }

  int64_t free_bytes() override {
    size_t free = 0, total = 0;
    MLXCEL_CUDA(cudaMemGetInfo(&free, &total));
    return static_cast<int64_t>(free) + allocator().cached_bytes();
  }
  int64_t total_bytes() override { return static_cast<int64_t>(facts().properties.totalGlobalMem); }

  std::unique_ptr<DeviceGraph> record(const std::function<void()>& work) override {
    cudaGraph_t graph = nullptr;
    MLXCEL_CUDA(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeRelaxed));
    allocator().set_recording(true);
    try {
      work();
    } catch (...) {
      allocator().set_recording(false);
      cudaStreamEndCapture(stream(), &graph);
      if (graph != nullptr) cudaGraphDestroy(graph);
      (void)cudaGetLastError();
      throw;
    }
    allocator().set_recording(false);
    MLXCEL_CUDA(cudaStreamEndCapture(stream(), &graph));
    cudaGraphExec_t executable = nullptr;
    const cudaError_t code = cudaGraphInstantiate(&executable, graph, 0);
    cudaGraphDestroy(graph);
    MLXCEL_CUDA(code);
    return std::make_unique<Graph>(executable);
  }

 private:
  static DType activations_from_environment() {
    const std::string name = env::get("MLXCEL_ACTIVATIONS").value_or("bf16");
    if (name == "bf16") return DType::BF16;
    if (name == "f32") return DType::F32;
    throw Error(Code::InvalidArgument,
                fmt::format("MLXCEL_ACTIVATIONS: unknown type '{}'; expected bf16 or f32", name));
  }
  DType activation_type_ = activations_from_environment();
};

}  // namespace

void check(cudaError_t code, const char* call, const char* file, int line) {
  if (code == cudaSuccess) return;
  const Code kind = code == cudaErrorMemoryAllocation ? Code::ResourceExhausted : Code::Internal;
  throw Error(kind, fmt::format("{}:{}: {}: {} ({})", file, line, call, cudaGetErrorString(code),
                                cudaGetErrorName(code)));
}

const std::string& unavailable_reason() { return facts().problem; }

cudaStream_t stream() {
  static const cudaStream_t instance = [] {
    cudaStream_t s = nullptr;
    MLXCEL_CUDA(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    return s;
  }();
  return instance;
}

int num_multiprocessors() { return facts().properties.multiProcessorCount; }
int compute_capability() { return facts().properties.major * 10 + facts().properties.minor; }

int* zeroed_counters(int64_t count) {
  // Kept for good: recorded graphs hold the address. A larger one is made beside it.
  static int* counters = nullptr;
  static int64_t size = 0;
  if (count > size) {
    size = std::max<int64_t>(count * 2, 16384);
    void* data = nullptr;
    MLXCEL_CUDA(cudaMalloc(&data, static_cast<size_t>(size) * sizeof(int)));
    MLXCEL_CUDA(cudaMemsetAsync(data, 0, static_cast<size_t>(size) * sizeof(int), stream()));
    counters = static_cast<int*>(data);
  }
  return counters;
}

Scratch::Scratch(int64_t bytes) {
  Allocator::Block* block = allocator().take(bytes);
  data_ = block->data;
  block_ = block;
}
Scratch::~Scratch() { allocator().give(static_cast<Allocator::Block*>(block_)); }

bool register_runtime() {
  if (!unavailable_reason().empty()) return false;
  static Runtime runtime;
  register_device(DeviceKind::Cuda, &runtime);
  return true;
}

}  // namespace mlxcel::cuda
