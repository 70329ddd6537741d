#include "backend/cuda/allocator.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <memory>

#include "backend/cuda/runtime.h"
#include "base/error.h"

namespace mlxcel::cuda {
namespace {

// Four sizes per power of two, so that freed blocks fit later requests of similar size; from 32 MiB
// on multiples of 2 MiB, the driver's own granularity.
int64_t size_class(int64_t bytes) {
  constexpr int64_t kSmallest = 512, kLarge = int64_t{32} << 20, kGranule = int64_t{2} << 20;
  bytes = std::max(bytes, kSmallest);
  const auto step = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(bytes)) / 4);
  const int64_t granule = bytes >= kLarge ? kGranule : std::max(step, kSmallest);
  return (bytes + granule - 1) / granule * granule;
}

}  // namespace

Allocator::Block* Allocator::take(int64_t bytes) {
  if (bytes < 0 || bytes > (int64_t{1} << 46)) {
    throw Error(Code::ResourceExhausted,
                fmt::format("an allocation of {} bytes is not possible", bytes));
  }
  const int64_t size = size_class(bytes);
  const std::lock_guard lock(mutex_);
  Store& store = recording_ ? graphs_ : eager_;
  const auto found = store.find(size);
  if (found != store.end() && !found->second.empty()) {
    Block* block = found->second.back();
    found->second.pop_back();
    if (!block->for_graphs) cached_bytes_ -= size;
    return block;
  }
  auto block = std::make_unique<Block>();
  block->size = size;
  block->for_graphs = recording_;
  cudaError_t code = cudaMalloc(&block->data, static_cast<size_t>(size));
  if (code == cudaErrorMemoryAllocation && !recording_ && release_cached()) {
    code = cudaMalloc(&block->data, static_cast<size_t>(size));
  }
  if (code == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    throw Error(Code::ResourceExhausted,
                fmt::format("the GPU is out of memory: cannot allocate {} bytes", size));
  }
  MLXCEL_CUDA(code);
  return block.release();
}

void Allocator::give(Block* block) noexcept {
  const std::lock_guard lock(mutex_);
  try {
    (block->for_graphs ? graphs_ : eager_)[block->size].push_back(block);
    if (!block->for_graphs) cached_bytes_ += block->size;
  } catch (const std::bad_alloc&) {
    cudaFree(block->data);  // no room for the bookkeeping
    delete block;
  }
}

// Kernels may still read what is cached: cudaFree waits for the device first.
bool Allocator::release_cached() {
  (void)cudaGetLastError();
  bool any = false;
  for (auto& [size, blocks] : eager_) {
    for (Block* block : blocks) {
      cudaFree(block->data);
      delete block;
      any = true;
    }
  }
  eager_.clear();
  cached_bytes_ = 0;
  return any;
}

void Allocator::set_recording(bool recording) {
  const std::lock_guard lock(mutex_);
  recording_ = recording;
}

int64_t Allocator::cached_bytes() {
  const std::lock_guard lock(mutex_);
  return cached_bytes_;
}

}  // namespace mlxcel::cuda
