#include <fmt/core.h>

#include "base/error.h"
#include "ops/check.h"
#include "ops/kernel_table.h"
#include "ops/ops.h"
#include "tensor/device.h"

namespace mlxcel::ops {
namespace {

const PlannedMatrix& planned(std::string_view op, const PackedMatrix& w) {
  const auto* matrix = dynamic_cast<const PlannedMatrix*>(&w);
  if (matrix == nullptr) bad_argument(op, "the matrix was not made by pack_matrix");
  return *matrix;
}

std::string shapes(const Tensor& x, const PackedMatrix& w) {
  return fmt::format("x {} and a matrix of {} rows and {} columns", x.shape().str(), w.rows(),
                     w.cols());
}

}  // namespace

std::shared_ptr<const PackedMatrix> pack_matrices(std::span<const MatrixSource* const> sources,
                                                  Device device) {
  if (sources.empty()) bad_argument("pack_matrices", "no sources");
  const MatrixSource& first = *sources.front();
  MatrixView view{.format = first.format(), .rows = 0, .cols = first.cols()};
  for (const MatrixSource* s : sources) {
    if (!(s->format() == view.format) || s->cols() != view.cols) {
      bad_argument(
          "pack_matrices",
          fmt::format("{} ({}, {} columns) and {} ({}, {} columns) cannot be stacked", first.name(),
                      view.format.str(), view.cols, s->name(), s->format().str(), s->cols()));
    }
    if (s->rows() < 0 || s->rows() > INT32_MAX || view.rows + s->rows() > INT32_MAX) {
      bad_argument("pack_matrices", fmt::format("{} has too many rows", s->name()));
    }
    view.rows += s->rows();
  }
  if (view.cols < 1 || view.cols > (int64_t{1} << 28)) {
    bad_argument("pack_matrices", fmt::format("{} has {} columns", first.name(), view.cols));
  }
  return with_context(first.name(), [&]() -> std::shared_ptr<const PackedMatrix> {
    const KernelTable& table = kernel_table();
    const Packing& packing = table.packing_for(view.format, view.cols, device);
    view.layout = packing.layout;
    const Isa cap = device.kind == DeviceKind::Cpu ? cpu_level() : Isa::Sm90;
    LinearPlan plan = table.plan(view.format, view.layout, device, cap, cpu_activations());
    auto data = Buffer::host(packing.bytes(view.format, view.rows, view.cols));
    packing.pack(sources, data->data());
    if (device.kind != DeviceKind::Cpu) {
      DeviceRuntime& runtime = device_runtime(device);
      auto copy = runtime.allocate(data->size());
      runtime.upload(copy->data(), data->data(), data->size());
      data = std::move(copy);
    }
    view.data = data->data();
    return std::make_shared<PlannedMatrix>(view, std::move(data), std::move(plan), packing);
  });
}

std::shared_ptr<const PackedMatrix> pack_matrix(const MatrixSource& source, Device device) {
  const MatrixSource* one[] = {&source};
  return pack_matrices(one, device);
}

namespace {

Tensor product(const Tensor& x, const PackedMatrix& w, const Tensor* bias, DType y_type) {
  const PlannedMatrix& matrix = planned("linear", w);
  const RowView rows = row_view("linear", "x", x);
  if (x.shape().rank() != 2 || rows.dim != w.cols()) {
    bad_argument("linear", shapes(x, w) + " do not fit");
  }
  if (!(x.device() == w.device())) bad_argument("linear", "x is on another device than the matrix");
  LinearArgs args;
  if (bias != nullptr) {
    args.bias = vector_of("linear", "bias", *bias, w.rows(), false, x.device());
  }
  Tensor y = Tensor::empty({rows.outer, w.rows()}, y_type, x.device());
  if (y.numel() == 0) return y;
  args.x = rows.data;
  args.x_stride = rows.outer_stride;
  args.x_type = rows.type;
  args.y = static_cast<float*>(y.raw());
  args.y_stride = w.rows();
  args.y_type = y_type;
  args.m = rows.outer;
  args.w = matrix.view();
  matrix.plan().kernel_for(args.m).run(args);
  return y;
}

}  // namespace

Tensor linear(const Tensor& x, const PackedMatrix& w, const Tensor* bias) {
  return product(x, w, bias, x.dtype());
}

Tensor linear_f32(const Tensor& x, const PackedMatrix& w, const Tensor* bias) {
  return product(x, w, bias, DType::F32);
}

Tensor gather_rows(const PackedMatrix& table, const Tensor& ids) {
  const PlannedMatrix& matrix = planned("gather_rows", table);
  GatherArgs args;
  args.ids = indices_of("gather_rows", "ids", ids, table.device());
  args.count = ids.numel();
  const bool readable = table.device().kind == DeviceKind::Cpu;
  for (int64_t i = 0; readable && i < args.count; ++i) {
    if (args.ids[i] < 0 || args.ids[i] >= table.rows()) {
      bad_argument("gather_rows", fmt::format("id {} at {} is outside a table of {} rows",
                                              args.ids[i], i, table.rows()));
    }
  }
  args.type = activation_type(table.device());
  Tensor out = Tensor::empty({args.count, table.cols()}, args.type, table.device());
  args.out = static_cast<float*>(out.raw());
  args.w = matrix.view();
  if (args.count > 0) matrix.packing().gather(args);
  return out;
}

}  // namespace mlxcel::ops
