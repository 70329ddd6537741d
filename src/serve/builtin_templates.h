// Chat formats that have a name (--chat-template chatml).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mlxcel::serve {

/// The Jinja text of a named format, with llama-server's names; empty when there is none.
std::string builtin_template(std::string_view name);
std::vector<std::string_view> builtin_template_names();

}  // namespace mlxcel::serve
