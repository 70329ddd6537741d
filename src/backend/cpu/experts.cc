// Products with the routed experts: slots are sorted by expert, and each expert's outputs are cut
// among threads, so that its matrix is read once a step and by no thread twice.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include "backend/cpu/cpu.h"
#include "backend/cpu/vector_kernels.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "ops/expert_table.h"

namespace mlxcel::cpu {
namespace {

// Multiply-adds, or elements, below which waking the other threads costs more than it saves.
constexpr int64_t kMinParallelWork = 200'000;
constexpr int64_t kMinParallelElements = 32 * 1024;
// Reading a tile costs about as much as this many rows of x times it.
constexpr int64_t kTileCost = 4;

/// The slots of one routed expert: positions [begin, end) of the sorted order.
struct Share {
  int64_t expert = 0, begin = 0, end = 0;
  int64_t first_unit = 0;  // of the work before it
  int64_t rows() const { return end - begin; }
};

class ExpertProduct {
 public:
  explicit ExpertProduct(const ops::ExpertLinearArgs& a)
      : a_(a),
        view_(a.experts->view()),
        tile_rows_(a.experts->packing().tile_rows),
        tiles_((view_.rows + tile_rows_ - 1) / tile_rows_) {
    sort_slots();
    gather();
  }

  void run() {
    const int64_t units = shares_.back().first_unit + units_of(shares_.back());
    const auto range = [&](int64_t begin, int64_t end) { run_units(begin, end); };
    if (a_.slots * view_.rows * view_.cols < kMinParallelWork) {
      range(0, units);
    } else {
      ThreadPool::shared().parallel_for(units, 1, range);
    }
    scatter();
  }

 private:
  /// Work of a share in units that cost about the same: tiles times rows.
  int64_t units_of(const Share& s) const { return tiles_ * (s.rows() + kTileCost); }

  int64_t expert_of(int64_t slot) const {
    return a_.ids != nullptr ? a_.ids[slot] : slot % a_.experts->num_experts();
  }

  void sort_slots() {
    const auto experts = static_cast<size_t>(a_.experts->num_experts());
    std::vector<int64_t> next(experts + 1, 0);
    for (int64_t s = 0; s < a_.slots; ++s) {
      const int64_t id = expert_of(s);
      MLXCEL_CHECK(id >= 0 && static_cast<size_t>(id) < experts, "expert id out of range");
      ++next[static_cast<size_t>(id) + 1];
    }
    std::partial_sum(next.begin(), next.end(), next.begin());
    int64_t unit = 0;
    for (size_t e = 0; e < experts; ++e) {
      if (next[e] == next[e + 1]) continue;
      shares_.push_back({static_cast<int64_t>(e), next[e], next[e + 1], unit});
      unit += units_of(shares_.back());
    }
    order_.resize(static_cast<size_t>(a_.slots));
    for (int64_t s = 0; s < a_.slots; ++s) {
      order_[static_cast<size_t>(next[static_cast<size_t>(expert_of(s))]++)] = s;
    }
  }

  int64_t slot(int64_t sorted) const { return order_[static_cast<size_t>(sorted)]; }
  const float* x_of(int64_t slot) const { return a_.x.row(slot / a_.slots_per_row); }

  // Kernels read the rows of an expert from consecutive places; a lone row stays where it is.
  void gather() {
    sorted_ =
        std::any_of(shares_.begin(), shares_.end(), [](const Share& s) { return s.rows() > 1; });
    if (!sorted_) return;
    x_ = Buffer::host(a_.slots * view_.cols * 4);
    y_ = Buffer::host(a_.slots * view_.rows * 4);
    auto* x = static_cast<float*>(x_->data());
    copy_rows(view_.cols, [&](int64_t i) {
      std::memcpy(x + i * view_.cols, x_of(slot(i)), static_cast<size_t>(view_.cols) * 4);
    });
  }
  void scatter() {
    if (!sorted_) return;
    const auto* y = static_cast<const float*>(y_->data());
    copy_rows(view_.rows, [&](int64_t i) {
      std::memcpy(a_.y + slot(i) * view_.rows, y + i * view_.rows,
                  static_cast<size_t>(view_.rows) * 4);
    });
  }
  template <class Fn>
  void copy_rows(int64_t width, const Fn& copy) {
    const auto range = [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) copy(i);
    };
    if (a_.slots * width < kMinParallelElements) {
      range(0, a_.slots);
    } else {
      ThreadPool::shared().parallel_for(a_.slots, 1, range);
    }
  }

  // The tiles whose first unit lies in [begin, end).
  void run_units(int64_t begin, int64_t end) {
    for (const Share& s : shares_) {
      const int64_t units = units_of(s);
      if (s.first_unit >= end) break;
      if (s.first_unit + units <= begin) continue;
      const int64_t per_tile = s.rows() + kTileCost;
      const auto tile_at = [&](int64_t unit) {
        return std::clamp<int64_t>((unit - s.first_unit + per_tile - 1) / per_tile, 0, tiles_);
      };
      const int64_t first = begin <= s.first_unit ? 0 : tile_at(begin);
      const int64_t last = tile_at(end);
      if (first < last) run_tiles(s, first, last);
    }
  }

  void run_tiles(const Share& s, int64_t first, int64_t last) {
    const int64_t row = first * tile_rows_;
    ops::LinearArgs l;
    l.w = a_.experts->rows_of(s.expert, row, std::min(last * tile_rows_, view_.rows) - row);
    l.m = s.rows();
    if (sorted_) {
      l.x = static_cast<const float*>(x_->data()) + s.begin * view_.cols;
      l.y = static_cast<float*>(y_->data()) + s.begin * view_.rows + row;
    } else {
      l.x = x_of(slot(s.begin));
      l.y = a_.y + slot(s.begin) * view_.rows + row;
    }
    l.x_stride = view_.cols;
    l.y_stride = view_.rows;
    if (a_.bias != nullptr) l.bias = a_.bias + s.expert * view_.rows + row;
    a_.experts->plan().kernel_for(l.m).run(l);
  }

  const ops::ExpertLinearArgs& a_;
  const ops::MatrixView view_;
  int64_t tile_rows_, tiles_;
  std::vector<int64_t> order_;  // slots by expert, in order of their numbers
  std::vector<Share> shares_;
  bool sorted_ = false;            // x_ and y_ hold rows in that order
  std::shared_ptr<Buffer> x_, y_;  // [slots, cols], [slots, rows]
};

void expert_linear(const ops::ExpertLinearArgs& a) { ExpertProduct(a).run(); }

template <class Fn>
void for_rows(int64_t rows, int64_t work, const Fn& fn) {
  const auto range = [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) fn(r);
  };
  if (rows * work < kMinParallelElements) {
    range(0, rows);
  } else {
    ThreadPool::shared().parallel_for(rows, 1, range);
  }
}

void combine_experts(const ops::CombineArgs& a) {
  const VectorKernels& k = vector_kernels();
  for_rows(a.tokens, a.choices * a.y.dim, [&](int64_t t) {
    float* out = a.out + t * a.y.dim;
    const auto weight = [&](int64_t slot) { return a.weights != nullptr ? a.weights[slot] : 1.0F; };
    const int64_t first = t * a.choices;
    k.scale(a.y.row(first), weight(first), out, a.y.dim);
    for (int64_t s = first + 1; s < first + a.choices; ++s) {
      k.scale_add(a.y.row(s), weight(s), out, a.y.dim);
    }
  });
}

void scale_rows(const ops::ScaleRowsArgs& a) {
  const VectorKernels& k = vector_kernels();
  for_rows(a.count, a.x.dim, [&](int64_t i) {
    k.scale(a.x.row(i / a.per_row), a.factors[i], a.out + i * a.x.dim, a.x.dim);
  });
}

void sigmoid(const ops::UnaryArgs& a) {
  const VectorKernels& k = vector_kernels();
  for_rows(a.x.rows(), a.x.dim * 8,
           [&](int64_t r) { k.sigmoid(a.x.row(r), a.out + r * a.x.dim, a.x.dim); });
}

void clamped_swiglu(const ops::ClampedSwigluArgs& a) {
  const VectorKernels& k = vector_kernels();
  const int64_t n = a.gate.dim;
  for_rows(a.gate.rows(), n * 8, [&](int64_t r) {
    k.clamped_swiglu(a.gate.row(r), a.up.row(r), a.alpha, a.limit, a.out + r * n, n);
  });
}

}  // namespace

void register_experts(ops::OpTable& table) {
  table.route = route;
  table.expert_linear = expert_linear;
  table.combine_experts = combine_experts;
  table.scale_rows = scale_rows;
  table.sigmoid = sigmoid;
  table.clamped_swiglu = clamped_swiglu;
}

}  // namespace mlxcel::cpu
