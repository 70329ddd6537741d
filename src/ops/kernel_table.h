// How matrices are laid out for the kernels of a device, and which kernels read them. Backends fill
// the table once at start-up; a matrix takes its kernels when it is packed.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "ops/activations.h"
#include "ops/isa.h"
#include "ops/ops.h"
#include "tensor/matrix_source.h"

namespace mlxcel::ops {

enum class Layout : uint8_t { CpuTile16, CudaFragment };

/// One packed matrix as kernels see it.
struct MatrixView {
  WeightFormat format;
  Layout layout = Layout::CpuTile16;
  int64_t rows = 0, cols = 0;
  const void* data = nullptr;
};

/// y = x W^T + bias for m >= 1 rows, all f32 on the CPU. Elsewhere x and y point to elements of
/// x_type and y_type. Strides are in elements.
struct LinearArgs {
  const float* x = nullptr;
  int64_t x_stride = 0;
  float* y = nullptr;
  int64_t y_stride = 0;
  DType x_type = DType::F32, y_type = DType::F32;
  int64_t m = 0;
  const float* bias = nullptr;  // [rows] or null
  MatrixView w;
};

/// out[i] = row ids[i] of the matrix; ids have been checked on the CPU, and lie on the device
/// elsewhere.
struct GatherArgs {
  const int32_t* ids = nullptr;
  int64_t count = 0;
  float* out = nullptr;  // [count, cols] of `type`
  DType type = DType::F32;
  MatrixView w;
};

/// Names one sequence of roundings. Kernels with the same order return the same bits for a row,
/// whatever the number of rows around it.
using ReductionOrder = uint16_t;

/// Rewrites stored matrices, stacked by rows, into a layout.
struct Packing {
  DeviceKind device = DeviceKind::Cpu;
  Layout layout = Layout::CpuTile16;
  /// Rows at whose multiples a matrix can be cut: row r begins bytes(format, r, cols) after row 0.
  int64_t tile_rows = 1;
  bool (*supports)(const WeightFormat& format, int64_t cols) = nullptr;
  int64_t (*bytes)(const WeightFormat& format, int64_t rows, int64_t cols) = nullptr;
  /// Writes to host memory, for any device.
  void (*pack)(std::span<const MatrixSource* const> sources, void* out) = nullptr;
  void (*gather)(const GatherArgs& args) = nullptr;
};

struct LinearKernel {
  std::string_view name;  // "cpu.affine4.avx2": used by benches, tests and logs
  DeviceKind device = DeviceKind::Cpu;
  Isa isa = Isa::Scalar;
  Layout layout = Layout::CpuTile16;
  bool (*supports)(const WeightFormat& format) = nullptr;
  int64_t min_m = 1, max_m = INT64_MAX;  // rows of x it is meant for
  ReductionOrder order = 0;
  int rank = 0;                     // measured preference; higher wins
  bool rounds_activations = false;  // to sixteen bits
  void (*run)(const LinearArgs& args) = nullptr;
};

/// The kernels of one matrix. All have the same order, so the choice by row count cannot change a
/// bit.
class LinearPlan {
 public:
  LinearPlan() = default;
  explicit LinearPlan(std::vector<LinearKernel> kernels) : kernels_(std::move(kernels)) {}
  /// The best-ranked kernel meant for m rows.
  const LinearKernel& kernel_for(int64_t m) const;

 private:
  std::vector<LinearKernel> kernels_;  // falling rank; together they cover every m >= 1
};

class KernelTable {
 public:
  void add(const Packing& packing) { packings_.push_back(packing); }
  void add(const LinearKernel& kernel) { linear_.push_back(kernel); }
  void clear() { packings_.clear(), linear_.clear(); }

  /// The layout for a stored format; throws Unsupported naming format and device.
  const Packing& packing_for(const WeightFormat& format, int64_t cols, Device device) const;
  /// Kernels of the best-ranked order that covers every row count, among those up to `cap` that
  /// read activations as told. Throws Unsupported when there is none.
  LinearPlan plan(const WeightFormat& format, Layout layout, Device device, Isa cap,
                  Activations activations) const;
  const std::vector<LinearKernel>& linear() const { return linear_; }

 private:
  std::vector<Packing> packings_;
  std::vector<LinearKernel> linear_;
};

/// The process-wide table, written only by the backends' registration.
KernelTable& kernel_table();

/// What pack_matrix returns: packed bytes and the kernels chosen for them.
class PlannedMatrix final : public PackedMatrix {
 public:
  PlannedMatrix(MatrixView view, std::shared_ptr<Buffer> data, LinearPlan plan,
                const Packing& packing)
      : view_(view), data_(std::move(data)), plan_(std::move(plan)), packing_(packing) {}
  int64_t rows() const override { return view_.rows; }
  int64_t cols() const override { return view_.cols; }
  int64_t bytes() const override { return data_->size(); }
  Device device() const override { return data_->device(); }
  const WeightFormat& format() const override { return view_.format; }
  const MatrixView& view() const { return view_; }
  const LinearPlan& plan() const { return plan_; }
  const Packing& packing() const { return packing_; }

 private:
  MatrixView view_;
  std::shared_ptr<Buffer> data_;
  LinearPlan plan_;
  Packing packing_;
};

}  // namespace mlxcel::ops
