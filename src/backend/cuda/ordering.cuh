// Overlap of launches. A kernel begins while the one before it still runs, and waits before it
// touches anything but weights; so every kernel that is launched by launch() must call
// begin_kernel() first of all, or both functions at the right places.
#pragma once

namespace mlxcel::cuda {

/// Lets the next launch of the stream begin, and waits for the one before to have ended.
__device__ inline void allow_next_launch() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
__device__ inline void wait_for_last_launch() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

__device__ inline void begin_kernel() {
  allow_next_launch();
  wait_for_last_launch();
}

}  // namespace mlxcel::cuda
