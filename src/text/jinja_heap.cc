#include "text/jinja_heap.h"

namespace mlxcel::text::jinja {

void fail(Fault fault, std::string message) { throw Failure(fault, std::move(message)); }

void Heap::charge(size_t bytes) {
  if (bytes > static_cast<size_t>(INT64_MAX) || bytes_ < static_cast<int64_t>(bytes)) {
    fail(Fault::Limit, "the template needs more memory than a rendering may use");
  }
  bytes_ -= static_cast<int64_t>(bytes);
}

void Heap::check_string(size_t bytes) const {
  if (bytes > static_cast<size_t>(string_bytes_)) {
    fail(Fault::Limit,
         "the template makes a text of more than " + std::to_string(string_bytes_) + " bytes");
  }
}

void Heap::out_of_steps() {
  fail(Fault::Limit, "the template takes more steps than a rendering may use");
}

}  // namespace mlxcel::text::jinja
