// The CUDA device of this process: one stream, cached memory, recorded graphs.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace mlxcel::cuda {

/// Throws the error of a CUDA call: ResourceExhausted for memory, Internal for all else.
void check(cudaError_t code, const char* call, const char* file, int line);
#define MLXCEL_CUDA(call) ::mlxcel::cuda::check((call), #call, __FILE__, __LINE__)

/// The stream that everything runs on. Only when there is a device.
cudaStream_t stream();
/// Reports a launch that the driver refused.
inline void check_launch(const char* kernel, const char* file, int line) {
  check(cudaGetLastError(), kernel, file, line);
}
#define MLXCEL_CUDA_LAUNCHED(kernel) ::mlxcel::cuda::check_launch(kernel, __FILE__, __LINE__)

int num_multiprocessors();
/// Compute capability times ten: 90 for Hopper.
int compute_capability();

/// At least `count` integers that are zero between kernels: who counts in them leaves zeros behind.
int* zeroed_counters(int64_t count);

/// Device memory for the duration of one op, given back in stream order.
class Scratch {
 public:
  explicit Scratch(int64_t bytes);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_ = nullptr;
  void* block_ = nullptr;
};

}  // namespace mlxcel::cuda
