// Tensor shapes of up to six dimensions, held inline.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace mlxcel {

class Shape {
 public:
  static constexpr int kMaxRank = 6;
  Shape() = default;
  /// Throws InvalidArgument for negative dimensions, a rank above kMaxRank or a product beyond
  /// 2^62.
  Shape(std::initializer_list<int64_t> dims);
  explicit Shape(std::span<const int64_t> dims);
  int rank() const { return rank_; }
  /// The dimension at `axis`; a negative axis counts from the end. Throws when out of range.
  int64_t operator[](int axis) const;
  int64_t numel() const;
  std::span<const int64_t> dims() const { return {dims_.data(), static_cast<size_t>(rank_)}; }
  bool operator==(const Shape& other) const;
  std::string str() const;  // "[2, 3]"

 private:
  std::array<int64_t, kMaxRank> dims_{};
  int8_t rank_ = 0;
};

}  // namespace mlxcel
