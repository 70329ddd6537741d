// Checks that bad input ends in an Error whose message names what is wrong.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace mlxcel::io {

template <class Fn>
void expect_error(Code code, const std::string& part, Fn&& fn) {
  try {
    fn();
    ADD_FAILURE() << "no error; expected one with \"" << part << "\"";
  } catch (const Error& e) {
    EXPECT_EQ(code_name(e.code()), code_name(code)) << e.what();
    EXPECT_NE(e.message().find(part), std::string::npos) << e.what();
  }
}

}  // namespace mlxcel::io
