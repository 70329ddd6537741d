#include "tensor/device.h"

#include <cstring>

#include "base/error.h"

namespace mlxcel {
namespace {

// Written once at start-up, before any thread but the first.
DeviceRuntime* g_cuda = nullptr;

}  // namespace

DeviceRuntime* find_device(DeviceKind kind) { return kind == DeviceKind::Cuda ? g_cuda : nullptr; }

DeviceRuntime& device_runtime(Device device) {
  DeviceRuntime* runtime = find_device(device.kind);
  if (runtime == nullptr) {
    throw Error(Code::Unsupported, "this build has no memory allocator for that device");
  }
  return *runtime;
}

void register_device(DeviceKind kind, DeviceRuntime* runtime) {
  MLXCEL_CHECK(kind == DeviceKind::Cuda, "the CPU needs no runtime");
  g_cuda = runtime;
}

DType activation_type(Device device) {
  return device.kind == DeviceKind::Cpu ? DType::F32 : device_runtime(device).activation_type();
}

void copy_bytes(Device device, void* to, const void* from, int64_t bytes) {
  if (bytes == 0) return;
  if (device.kind == DeviceKind::Cpu) {
    std::memcpy(to, from, static_cast<size_t>(bytes));
  } else {
    device_runtime(device).copy(to, from, bytes);
  }
}

void fill_bytes(Device device, void* to, uint8_t value, int64_t bytes) {
  if (bytes == 0) return;
  if (device.kind == DeviceKind::Cpu) {
    std::memset(to, value, static_cast<size_t>(bytes));
  } else {
    device_runtime(device).fill(to, value, bytes);
  }
}

}  // namespace mlxcel
