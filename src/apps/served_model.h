// From a loaded checkpoint to what the server's routes share.
#pragma once

#include "apps/load_model.h"
#include "apps/serve_arguments.h"
#include "serve/routes_admin.h"
#include "serve/served_model.h"

namespace mlxcel::apps {

/// Starts the engine. Throws what Engine::start throws.
serve::ServedModel make_served_model(const ServeArguments& arguments,
                                     const LoadedChatModel& loaded);

/// Defaults of requests: those of the server, of generation_config.json over them, flags over both
/// (decisions.md C5).
serve::RequestDefaults make_request_defaults(const ServeArguments& arguments,
                                             const LoadedChatModel& loaded);

serve::GenerationOptions make_generation_options(const ServeArguments& arguments);

/// `settings` may be null.
serve::AdminOptions make_admin_options(const ServeArguments& arguments,
                                       const LoadedChatModel& loaded,
                                       serve::SettingsStore* settings);

/// What GET /v1/settings shows beside the defaults: decided when the server starts.
Json fixed_settings(const ServeArguments& arguments, const serve::ServedModel& model);

/// Elements of all weights, whatever their storage.
int64_t parameter_count(const io::Checkpoint& checkpoint);

/// --chat-template and --chat-template-file put over the checkpoint's own.
void apply_template_flags(const ServeArguments& arguments, serve::ChatFormat& chat);

}  // namespace mlxcel::apps
