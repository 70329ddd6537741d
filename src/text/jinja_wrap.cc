#include "text/jinja_builtins.h"
namespace mlxcel::text::jinja {
Value filter_wordwrap(Runtime&, const Value&, Args&) { fail(Fault::Unsupported, "wordwrap"); }
Value filter_pprint(Runtime&, const Value&, Args&) { fail(Fault::Unsupported, "pprint"); }
Value filter_urlize(Runtime&, const Value&, Args&) { fail(Fault::Unsupported, "urlize"); }
}  // namespace mlxcel::text::jinja
