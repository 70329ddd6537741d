// Waiting sequences in three lanes of strict priority, first in, first out within a lane.
#pragma once

#include <array>
#include <deque>
#include <vector>

#include "engine/sequence.h"

namespace mlxcel::engine {

class RequestQueue {
 public:
  /// `single_lane`: priorities are ignored.
  explicit RequestQueue(bool single_lane) : single_lane_(single_lane) {}

  void push(SequencePtr s) { lane(*s).push_back(std::move(s)); }
  /// For a preempted sequence: it goes on before those that have not started.
  void push_front(SequencePtr s) { lane(*s).push_front(std::move(s)); }
  const SequencePtr* head() const {
    for (const auto& lane : lanes_) {
      if (!lane.empty()) return &lane.front();
    }
    return nullptr;
  }
  SequencePtr pop() {
    for (auto& lane : lanes_) {
      if (lane.empty()) continue;
      SequencePtr s = std::move(lane.front());
      lane.pop_front();
      return s;
    }
    return nullptr;
  }
  /// Tokens to compute of the first `count` sequences of the head's lane.
  std::vector<int32_t> head_lengths(int32_t count) const {
    std::vector<int32_t> lengths;
    for (const auto& lane : lanes_) {
      if (lane.empty()) continue;
      for (const SequencePtr& s : lane) {
        if (static_cast<int32_t>(lengths.size()) >= count) break;
        lengths.push_back(s->num_remaining());
      }
      break;
    }
    return lengths;
  }
  /// The sequence with this id, or nothing.
  SequencePtr find(RequestId id) const {
    for (const auto& lane : lanes_) {
      for (const SequencePtr& s : lane) {
        if (s->id == id) return s;
      }
    }
    return nullptr;
  }
  /// Takes out the sequence with this id, or nothing.
  SequencePtr remove(RequestId id) {
    for (auto& lane : lanes_) {
      for (auto it = lane.begin(); it != lane.end(); ++it) {
        if ((*it)->id != id) continue;
        SequencePtr s = std::move(*it);
        lane.erase(it);
        return s;
      }
    }
    return nullptr;
  }
  int32_t size() const {
    size_t sum = 0;
    for (const auto& lane : lanes_) sum += lane.size();
    return static_cast<int32_t>(sum);
  }

 private:
  std::deque<SequencePtr>& lane(const Sequence& s) {
    return lanes_[single_lane_ ? 0 : static_cast<size_t>(s.request.priority)];
  }
  bool single_lane_;
  std::array<std::deque<SequencePtr>, 3> lanes_;
};

}  // namespace mlxcel::engine
