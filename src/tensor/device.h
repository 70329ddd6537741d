// What the program needs from a device other than the CPU: memory, copies, waiting, and recorded
// launches. A backend registers one runtime for its kind of device at start-up.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "tensor/buffer.h"
#include "tensor/dtype.h"

namespace mlxcel {

/// Launches recorded once and replayed as one; the memory they use stays theirs.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  virtual void launch() = 0;
};

/// Everything happens in the order of the calls, on one queue of the device. Calls may come from
/// any thread, one at a time. Failures of the device throw Internal, or ResourceExhausted for
/// memory.
class DeviceRuntime {
 public:
  virtual ~DeviceRuntime() = default;
  /// For people: "NVIDIA H200 (sm_90, 139 GiB)".
  virtual std::string name() const = 0;
  /// The type of activations between ops: BF16, or F32 when MLXCEL_ACTIVATIONS says f32.
  virtual DType activation_type() const = 0;

  /// Uninitialized device memory from a cache: in steady state nothing is asked of the driver.
  virtual std::shared_ptr<Buffer> allocate(int64_t bytes) = 0;
  /// Host memory that the device reaches directly.
  virtual std::shared_ptr<Buffer> pinned(int64_t bytes) = 0;

  /// Host to device. `host` may be changed on return unless it is pinned: then not before
  /// synchronize(), or a later download, has returned.
  virtual void upload(void* device, const void* host, int64_t bytes) = 0;
  /// Device to host; returns when the bytes are there.
  virtual void download(void* host, const void* device, int64_t bytes) = 0;
  virtual void copy(void* to, const void* from, int64_t bytes) = 0;  // inside the device
  virtual void fill(void* device, uint8_t value, int64_t bytes) = 0;
  /// Waits for everything that was asked so far; reports failures of earlier launches.
  virtual void synchronize() = 0;

  /// Memory that allocate() can still give, and all memory of the device.
  virtual int64_t free_bytes() = 0;
  virtual int64_t total_bytes() = 0;

  /// Records what `work` launches, without running it. Inputs and results must lie in memory that
  /// outlives the graph; temporaries of graphs live in memory that only graphs use.
  virtual std::unique_ptr<DeviceGraph> record(const std::function<void()>& work) = 0;
};

/// The runtime of a kind, or null: the CPU has none, nor has a machine without the device.
DeviceRuntime* find_device(DeviceKind kind);
/// The same; throws Unsupported when there is none.
DeviceRuntime& device_runtime(Device device);
/// Called once by the backend; `runtime` lives until the end of the program.
void register_device(DeviceKind kind, DeviceRuntime* runtime);

/// The type of activations on a device: F32 on the CPU.
DType activation_type(Device device);
/// Copies between two places of one device, or of the host.
void copy_bytes(Device device, void* to, const void* from, int64_t bytes);
void fill_bytes(Device device, void* to, uint8_t value, int64_t bytes);

}  // namespace mlxcel
