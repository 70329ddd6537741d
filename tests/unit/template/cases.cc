#include "cases.h"

#include <fstream>
#include <iterator>

#include "text/chat_template.h"

namespace mlxcel::text {

std::string load_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Error(Code::NotFound, "cannot read " + path);
  return {std::istreambuf_iterator<char>(in), {}};
}

Json load_json(const std::string& path) {
  JsonLimits limits;
  limits.allow_nonfinite = true;
  return Json::parse(load_text(path), limits).value();
}

std::string difference(const std::string& source, const Json& context, int64_t now,
                       const Json& expected) {
  const auto parsed = ChatTemplate::parse(source);
  const auto result =
      parsed.ok() ? parsed.value().render(context, now) : Result<std::string>(parsed.error());
  const Json* text = expected.find("text");
  if (text != nullptr) {
    if (!result.ok()) return "error instead of text: " + result.error().message();
    if (result.value() == text->as_string()) return "";
    return "expected:\n" + text->as_string() + "\n--- got:\n" + result.value();
  }
  const std::string message = expected.find("message")->as_string();
  if (result.ok()) {
    return "text instead of " + expected.find("error")->as_string() + " '" + message + "':\n" +
           result.value();
  }
  if (result.error().code() == Code::Internal) return "internal error: " + result.error().message();
  const bool raised = expected.find("error")->as_string() == "raised";
  if (raised &&
      (result.error().message() != message || result.error().code() != Code::InvalidArgument)) {
    return "expected to raise '" + message + "', got: " + result.error().message();
  }
  return "";
}

}  // namespace mlxcel::text
