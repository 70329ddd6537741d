// Failures of a template and the limits it runs under. Every allocation and every step of a
// rendering is charged here, so that a hostile template ends with an error instead of eating the
// machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <utility>

namespace mlxcel::text::jinja {

/// What went wrong, after the Python exception of the same situation: some filters catch some
/// kinds.
enum class Fault : uint8_t {
  Raised,  // raise_exception: the message is the template's own
  Type,
  Value,
  Overflow,
  ZeroDivision,
  Lookup,
  Undefined,
  Security,
  Runtime,
  Syntax,
  Unsupported,
  Limit,
};

class Failure : public std::exception {
 public:
  Failure(Fault fault, std::string message, int line = 0)
      : fault_(fault), message_(std::move(message)), line_(line) {}
  Fault fault() const noexcept { return fault_; }
  const std::string& message() const noexcept { return message_; }
  int line() const noexcept { return line_; }  // 0 = where the interpreter is
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  Fault fault_;
  std::string message_;
  int line_;
};

[[noreturn]] void fail(Fault fault, std::string message);

/// Budget of one rendering. Not thread-safe; lives as long as every value of the rendering.
class Heap {
 public:
  Heap(int64_t steps, int64_t live_bytes, int64_t string_bytes)
      : steps_(steps), bytes_(live_bytes), string_bytes_(string_bytes) {}
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  /// Counts work; throws Limit when the budget is spent.
  void step(int64_t count = 1) {
    if ((steps_ -= count) < 0) [[unlikely]]
      out_of_steps();
  }
  /// Counts the work of looking at each of `bytes` bytes.
  void touch(size_t bytes) { step(static_cast<int64_t>(bytes / 256) + 1); }
  /// Counts the work of copying `bytes` bytes as they are.
  void copied(size_t bytes) { step(static_cast<int64_t>(bytes / 4096) + 1); }
  /// Counts memory that is about to be allocated; throws Limit when there would be too much.
  void charge(size_t bytes);
  void release(size_t bytes) noexcept { bytes_ += static_cast<int64_t>(bytes); }
  /// Throws Limit when a string of `bytes` bytes would be too long.
  void check_string(size_t bytes) const;

 private:
  [[noreturn]] static void out_of_steps();
  int64_t steps_, bytes_, string_bytes_;
};

/// A charge on a heap that is given back at the end of its life. A null heap is not charged.
class Charge {
 public:
  explicit Charge(Heap* heap = nullptr) : heap_(heap) {}
  Charge(Heap* heap, size_t bytes) : heap_(heap) { add(bytes); }
  Charge(Charge&& other) noexcept : heap_(other.heap_), bytes_(std::exchange(other.bytes_, 0)) {}
  Charge& operator=(Charge&&) = delete;
  ~Charge() {
    if (heap_ != nullptr) heap_->release(bytes_);
  }
  void add(size_t bytes) {
    if (heap_ == nullptr) return;
    heap_->charge(bytes);
    bytes_ += bytes;
  }
  Heap* heap() const { return heap_; }

 private:
  Heap* heap_;
  size_t bytes_ = 0;
};

}  // namespace mlxcel::text::jinja
