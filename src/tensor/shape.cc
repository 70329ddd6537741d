#include "tensor/shape.h"

#include <algorithm>

#include <fmt/core.h>

#include "base/error.h"

namespace mlxcel {

Shape::Shape(std::initializer_list<int64_t> dims)
    : Shape(std::span<const int64_t>(dims.begin(), dims.size())) {}

Shape::Shape(std::span<const int64_t> dims) {
  if (dims.size() > kMaxRank) {
    throw Error(Code::InvalidArgument,
                fmt::format("a tensor of rank {} exceeds the limit of {}", dims.size(), kMaxRank));
  }
  constexpr int64_t kLimit = int64_t{1} << 62;
  int64_t product = 1;
  for (const int64_t d : dims) {
    if (d < 0)
      throw Error(Code::InvalidArgument, fmt::format("negative dimension {} in a shape", d));
    if (d > 0 && product > kLimit / d)
      throw Error(Code::InvalidArgument, "a shape has too many elements");
    if (d > 0) product *= d;
    dims_[static_cast<size_t>(rank_++)] = d;
  }
}

int64_t Shape::operator[](int axis) const {
  const int at = axis < 0 ? axis + rank_ : axis;
  if (at < 0 || at >= rank_) {
    throw Error(Code::InvalidArgument, fmt::format("axis {} of a tensor of shape {}", axis, str()));
  }
  return dims_[static_cast<size_t>(at)];
}

int64_t Shape::numel() const {
  int64_t product = 1;
  for (const int64_t d : dims()) product *= d;
  return product;
}

bool Shape::operator==(const Shape& other) const {
  return std::ranges::equal(dims(), other.dims());
}

std::string Shape::str() const {
  std::string out = "[";
  for (const int64_t d : dims()) out += fmt::format("{}{}", out.size() > 1 ? ", " : "", d);
  return out + "]";
}

}  // namespace mlxcel
