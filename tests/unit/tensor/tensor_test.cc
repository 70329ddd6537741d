#include "tensor/tensor.h"

#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <vector>

#include "base/error.h"

namespace mlxcel {
namespace {

void expect_error(Code code, const std::function<void()>& fn, const char* what) {
  try {
    fn();
    ADD_FAILURE() << "no error: " << what;
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << what << ": " << e.message();
  }
}

TEST(Shape, RankSizeAndNames) {
  const Shape scalar;
  EXPECT_EQ(scalar.rank(), 0);
  EXPECT_EQ(scalar.numel(), 1);
  EXPECT_EQ(scalar.str(), "[]");
  const Shape s{2, 3, 4};
  EXPECT_EQ(s.numel(), 24);
  EXPECT_EQ(s.str(), "[2, 3, 4]");
  EXPECT_EQ(s[-1], 4);
  EXPECT_EQ(s[0], 2);
  EXPECT_EQ((Shape{5, 0, 7}).numel(), 0);
  EXPECT_EQ(s, (Shape{2, 3, 4}));
  EXPECT_FALSE(s == (Shape{2, 3}));
  EXPECT_FALSE((Shape{2, 3}) == (Shape{2, 3, 1}));
}

TEST(Shape, LimitsAreNamed) {
  const auto fails = [](std::initializer_list<int64_t> dims) {
    expect_error(Code::InvalidArgument, [&] { Shape{dims}; }, "shape");
  };
  fails({-1});
  fails({2, INT64_MIN});
  fails({1, 1, 1, 1, 1, 1, 1});
  fails({INT64_MAX});
  fails({int64_t{1} << 31, int64_t{1} << 32});
  // Zeros do not hide a product that overflows elsewhere.
  fails({0, INT64_MAX, INT64_MAX});
  EXPECT_EQ((Shape{int64_t{1} << 31, int64_t{1} << 31}).numel(), int64_t{1} << 62);
  EXPECT_EQ((Shape{1, 1, 1, 1, 1, 1}).rank(), Shape::kMaxRank);
  const Shape s{2, 3};
  for (const int axis : {2, -3, 100, INT32_MIN, INT32_MAX}) {
    expect_error(Code::InvalidArgument, [&] { (void)s[axis]; }, "axis");
  }
}

Tensor counted(Shape shape) {
  std::vector<float> values(static_cast<size_t>(shape.numel()));
  std::iota(values.begin(), values.end(), 0.0F);
  return Tensor::of(values, shape);
}

TEST(Tensor, SlicesAndViewsShareTheMemory) {
  Tensor t = counted({4, 6});
  EXPECT_TRUE(t.contiguous());
  EXPECT_EQ(t.stride(0), 6);
  EXPECT_EQ(t.stride(-1), 1);
  const Tensor rows = t.slice(0, 1, 3);
  EXPECT_TRUE(rows.contiguous());
  EXPECT_EQ(rows.shape(), (Shape{2, 6}));
  EXPECT_EQ(rows.host<float>()[0], 6.0F);
  const Tensor columns = t.slice(-1, 2, 5);
  EXPECT_FALSE(columns.contiguous());
  EXPECT_EQ(columns.shape(), (Shape{4, 3}));
  EXPECT_EQ(*static_cast<const float*>(columns.raw()), 2.0F);
  EXPECT_EQ(columns.stride(0), 6);
  // A single row is contiguous whatever its stride.
  EXPECT_TRUE(columns.slice(0, 2, 3).contiguous());
  EXPECT_EQ(columns.slice(0, 2, 3).host<float>()[0], 14.0F);
  const Tensor view = t.view({2, -1, 3});
  EXPECT_EQ(view.shape(), (Shape{2, 4, 3}));
  t.host_mut<float>()[23] = -1;
  EXPECT_EQ(view.host<float>()[23], -1.0F);
  EXPECT_EQ(t.slice(0, 4, 4).numel(), 0);
  EXPECT_EQ(t.buffer(), view.buffer());
}

TEST(Tensor, WrongSlicesAndViewsAreNamed) {
  const Tensor t = counted({4, 6});
  const std::pair<int64_t, int64_t> ranges[] = {{-1, 2},        {0, 5},         {3, 2},
                                                {INT64_MIN, 1}, {0, INT64_MAX}, {5, 5}};
  for (const auto& [begin, end] : ranges) {
    expect_error(
        Code::InvalidArgument, [&, b = begin, e = end] { (void)t.slice(0, b, e); }, "slice");
  }
  expect_error(Code::InvalidArgument, [&] { (void)t.slice(2, 0, 1); }, "axis");
  expect_error(Code::InvalidArgument, [&] { (void)t.slice(-3, 0, 1); }, "axis");
  expect_error(Code::InvalidArgument, [&] { (void)t.view({5, 5}); }, "view");
  expect_error(Code::InvalidArgument, [&] { (void)t.view({-2, 12}); }, "view");
  EXPECT_THROW((void)t.view({-1, -1}), Error);
  EXPECT_THROW((void)t.view({-1, 5}), Error);
  EXPECT_THROW((void)t.view({-1, 0}), Error);
  EXPECT_THROW((void)t.view({INT64_MAX, 3, -1}), Error);
  EXPECT_THROW((void)t.slice(1, 0, 3).view({12}), Error);
}

TEST(Tensor, ViewOfStridedRowsKeepsTheirStride) {
  const Tensor columns = counted({4, 12}).slice(1, 2, 8);  // [4, 6]
  const Tensor heads = columns.view({-1, 2, 3});
  EXPECT_EQ(heads.shape(), (Shape{4, 2, 3}));
  EXPECT_EQ(heads.stride(0), 12);
  EXPECT_EQ(heads.slice(0, 3, 4).host<float>()[5], 3 * 12 + 2 + 5);
  EXPECT_THROW((void)columns.view({2, 12}), Error);
}

TEST(Tensor, MustFitItsBuffer) {
  const auto buffer = Buffer::host(100);
  EXPECT_EQ(Tensor::over(buffer, 4, {24}, DType::F32).numel(), 24);
  EXPECT_EQ(Tensor::over(buffer, 100, {0}, DType::F32).numel(), 0);
  const auto fails = [&](int64_t offset, Shape shape) {
    expect_error(
        Code::InvalidArgument, [&] { (void)Tensor::over(buffer, offset, shape, DType::F32); },
        "over");
  };
  fails(-1, {1});
  fails(101, {0});
  fails(8, {24});
  fails(INT64_MAX, {1});
  fails(0, {int64_t{1} << 62});  // bytes would overflow
  expect_error(
      Code::ResourceExhausted, [] { (void)Tensor::empty({int64_t{1} << 62}, DType::F64); },
      "empty");
  expect_error(
      Code::Unsupported, [] { (void)Tensor::empty({1}, DType::F32, {DeviceKind::Cuda, 0}); },
      "device");
}

TEST(Tensor, ReadOnlyMemoryCannotBeWritten) {
  auto owner = std::make_shared<std::vector<float>>(8, 2.0F);
  Tensor t =
      Tensor::over(Buffer::borrow(std::as_bytes(std::span(*owner)), owner), 0, {8}, DType::F32);
  EXPECT_EQ(std::as_const(t).host<float>()[7], 2.0F);
  EXPECT_THROW((void)t.host_mut<float>(), Error);
  EXPECT_THROW((void)t.raw(), Error);
}

TEST(Tensor, HostAccessChecksTheType) {
  const Tensor f = Tensor::zeros({3}, DType::F32);
  EXPECT_EQ(f.host<float>()[2], 0.0F);
  EXPECT_THROW((void)f.host<double>(), Error);
  EXPECT_THROW((void)f.host<uint16_t>(), Error);
  const Tensor i = Tensor::of(std::vector<int32_t>{1, 2}, {2});
  EXPECT_EQ(i.host<int32_t>()[1], 2);
  EXPECT_THROW((void)i.host<float>(), Error);
  EXPECT_THROW((void)counted({2, 4}).slice(1, 0, 2).host<float>(), Error);
}

TEST(Tensor, ToF32Converts) {
  const Tensor i = Tensor::of(std::vector<int32_t>{-7, 9}, {1, 2});
  const Tensor f = i.to_f32();
  EXPECT_EQ(f.shape(), (Shape{1, 2}));
  EXPECT_EQ(f.host<float>()[0], -7.0F);
  EXPECT_EQ(f.host<float>()[1], 9.0F);
  Tensor h = Tensor::zeros({1}, DType::F16);
  h.host_mut<uint16_t>()[0] = 0x3C00;
  EXPECT_EQ(h.to_f32().host<float>()[0], 1.0F);
}

TEST(Tensor, NoTensorHasNoData) {
  const Tensor none;
  EXPECT_FALSE(none);
  EXPECT_EQ(none.raw(), nullptr);
  EXPECT_EQ(none.device(), Device{});
}

}  // namespace
}  // namespace mlxcel
