// Bounds the recursion of the parser.
#pragma once

#include "text/jinja_parser.h"

namespace mlxcel::text::jinja {

class Parser::Nesting {
 public:
  explicit Nesting(Parser& parser) : parser_(parser) {
    if (++parser_.nesting_ > 2 * parser_.max_depth_) {
      --parser_.nesting_;
      throw Failure(Fault::Limit, "the template is nested too deeply", parser_.current().line);
    }
  }
  ~Nesting() { --parser_.nesting_; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;

 private:
  Parser& parser_;
};

}  // namespace mlxcel::text::jinja
