// strftime for strftime_now, in the C locale and the local time zone, as Python's datetime gives
// it.
#include <array>
#include <ctime>

#include "text/jinja_builtins.h"

namespace mlxcel::text::jinja {

std::string format_time(int64_t unix_seconds, std::string_view format) {
  const auto seconds = static_cast<std::time_t>(unix_seconds);
  std::tm local{};
  if (localtime_r(&seconds, &local) == nullptr) {
    fail(Fault::Value, "the time " + std::to_string(unix_seconds) + " is out of range");
  }
  std::string out;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 >= format.size()) {
      out += format[i];
      continue;
    }
    std::string directive = "%";
    directive += format[++i];
    const bool modified = format[i] == '-' || format[i] == '_' || format[i] == '0' ||
                          format[i] == '^' || format[i] == '#' || format[i] == 'E' ||
                          format[i] == 'O';
    if (modified && i + 1 < format.size()) directive += format[++i];
    if (directive == "%f") {
      out += "000000";  // microseconds: the clock here counts seconds
    } else if (directive != "%z" && directive != "%Z" && directive != "%:") {
      // A naive datetime has no zone, so %z and %Z are empty.
      std::array<char, 256> text{};
      const size_t length = std::strftime(text.data(), text.size(), directive.c_str(), &local);
      out.append(text.data(), length);
    }
  }
  return out;
}

}  // namespace mlxcel::text::jinja
