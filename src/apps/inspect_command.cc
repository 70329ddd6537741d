#include <fmt/core.h>

#include "apps/commands.h"
#include "apps/memory_estimate.h"
#include "base/version.h"

namespace mlxcel::apps {

int inspect(const InspectArguments& arguments) {
  const io::Resolved resolved = io::resolve_model(arguments.model.model, arguments.model.hub);
  const EstimateInputs inputs{.context_tokens = arguments.max_tokens,
                              .batch = arguments.batch,
                              .quant = arguments.quant,
                              .cache_type_k = arguments.cache_type_k,
                              .cache_type_v = arguments.cache_type_v};
  const MemoryEstimate estimate = estimate_memory(resolved.path, arguments.model.model, inputs);
  if (arguments.json) {
    Json out = Json::object();
    out.set("mlxcel_version", version());
    const Json fields = estimate_json(estimate);
    for (const auto& [key, value] : fields.as_object()) out.set(key, value);
    fmt::print("{}\n", out.dump(2));
    return 0;
  }
  fmt::print("{}", estimate_banner(estimate));
  if (!estimate.fits) {
    fmt::print(
        "Note: loading may fail or swap; try a shorter context, a smaller batch or a "
        "smaller quantization.\n");
  }
  return 0;
}

}  // namespace mlxcel::apps
