#include "apps/served_model.h"

#include <fmt/core.h>

#include <algorithm>
#include <ctime>
#include <filesystem>

#include "base/env.h"
#include "base/error.h"
#include "base/file.h"
#include "io/gguf.h"
#include "io/quant_config.h"
#include "io/safetensors.h"
#include "serve/builtin_templates.h"
#include "text/chat_template.h"

namespace mlxcel::apps {
namespace {

/// A comma-separated list, sorted and without repetition.
std::vector<std::string> name_set(const std::string& list) {
  std::vector<std::string> names;
  size_t begin = 0;
  while (begin <= list.size()) {
    const size_t end = std::min(list.find(',', begin), list.size());
    std::string name = list.substr(begin, end - begin);
    name.erase(0, name.find_first_not_of(' '));
    name.erase(name.find_last_not_of(' ') + 1);
    if (!name.empty()) names.push_back(std::move(name));
    begin = end + 1;
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

std::string default_id(const LoadedChatModel& model) {
  if (!model.location.repo_id.empty()) return model.location.repo_id;
  const std::filesystem::path path(model.location.path);
  return path.has_filename() ? path.filename().string() : path.parent_path().filename().string();
}

int64_t product(const std::vector<int64_t>& dims) {
  int64_t n = 1;
  for (const int64_t d : dims) n *= d;  // the readers bound them
  return n;
}

int64_t safetensors_parameters(const io::Checkpoint& checkpoint) {
  const io::QuantConfig quant = io::QuantConfig::from(checkpoint.config);
  int64_t total = 0;
  for (const auto& file : checkpoint.safetensors) {
    for (const io::SafetensorsTensor& tensor : file->tensors()) {
      const std::string_view name = tensor.name;
      if (name.ends_with(".scales") || name.ends_with(".biases")) continue;
      int64_t elements = product(tensor.dims);
      if (tensor.dtype == DType::U32 && name.ends_with(".weight")) {
        const auto params = quant.declared(name.substr(0, name.size() - 7));
        if (params) elements = elements * 32 / params->bits;
      }
      total += elements;
    }
  }
  return total;
}

/// The type of most weights of a GGUF file, or the declared quantization of a SafeTensors one.
std::string quantization(const io::Checkpoint& checkpoint) {
  if (checkpoint.gguf) {
    std::vector<std::pair<io::GgmlType, int64_t>> sums;
    for (const io::GgufTensor& tensor : checkpoint.gguf->tensors()) {
      auto it = std::find_if(sums.begin(), sums.end(),
                             [&](const auto& entry) { return entry.first == tensor.type; });
      if (it == sums.end()) it = sums.insert(sums.end(), {tensor.type, 0});
      it->second += product(tensor.dims);
    }
    const auto most = std::max_element(
        sums.begin(), sums.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    return most == sums.end() ? std::string() : std::string(io::ggml_type_name(most->first));
  }
  const auto params = io::QuantConfig::from(checkpoint.config).declared("");
  return params ? fmt::format("{} {}-bit, groups of {}", params->mode, params->bits,
                              params->group_size)
                : std::string();
}

/// A template's text; a text without any Jinja is the name of a known format.
std::string template_text(const std::string& text) {
  if (text.find("{{") != std::string::npos || text.find("{%") != std::string::npos) return text;
  std::string known = serve::builtin_template(text);
  if (!known.empty()) return known;
  std::string names;
  for (const std::string_view name : serve::builtin_template_names()) {
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  throw Error(
      Code::InvalidArgument,
      fmt::format("--chat-template: '{}' is neither a Jinja template nor one of {}", text, names));
}

Json template_variables(const ServeArguments& a) {
  Json variables = Json::object();
  if (!a.chat_template_kwargs.empty()) {
    variables = with_context("--chat-template-kwargs",
                             [&] { return Json::parse(a.chat_template_kwargs).value(); });
    if (!variables.is_object()) {
      throw Error(Code::InvalidArgument, "--chat-template-kwargs: not a JSON object");
    }
  }
  if (a.reasoning) variables.set("enable_thinking", *a.reasoning);
  return variables;
}

/// A route that a Vertex AI container is asked to have.
std::string vertex_path(const char* variable, const char* otherwise) {
  if (env::get("AIP_MODE").value_or("") != "PREDICTION") return {};
  std::string path = env::get(variable).value_or(otherwise);
  if (!path.empty() && !path.starts_with('/')) {
    throw Error(Code::InvalidArgument,
                fmt::format("{}: '{}' does not begin with '/'", variable, path));
  }
  return path;
}

serve::ReasoningFormat reasoning_format(const std::string& name) {
  if (name == "none") return serve::ReasoningFormat::None;
  if (name == "deepseek") return serve::ReasoningFormat::Deepseek;
  if (name == "deepseek-legacy") return serve::ReasoningFormat::DeepseekLegacy;
  return serve::ReasoningFormat::Auto;
}

}  // namespace

int64_t parameter_count(const io::Checkpoint& checkpoint) {
  if (!checkpoint.gguf) return safetensors_parameters(checkpoint);
  int64_t total = 0;
  for (const io::GgufTensor& tensor : checkpoint.gguf->tensors()) total += product(tensor.dims);
  return total;
}

void apply_template_flags(const ServeArguments& a, serve::ChatFormat& chat) {
  if (a.chat_template) chat.template_source = template_text(*a.chat_template);
  if (a.chat_template_file) chat.template_source = read_file(*a.chat_template_file);
  if (a.chat_template || a.chat_template_file) {
    const auto parsed = text::ChatTemplate::parse(chat.template_source);
    if (!parsed.ok()) throw parsed.error().within("--chat-template");
  }
}

serve::RequestDefaults make_request_defaults(const ServeArguments& a,
                                             const LoadedChatModel& loaded) {
  engine::SamplingParams p;
  p.temperature = 0.8F;
  p.top_k = 40;
  p.top_p = 0.9F;
  p.min_p = 0.1F;
  p.repeat_last_n = 64;
  p.dry_penalty_last_n = 64;
  p = a.sampling.over(loaded.defaults.over(p));
  if (a.adaptive_target) p.adaptive_target = *a.adaptive_target;
  if (a.adaptive_decay) p.adaptive_decay = *a.adaptive_decay;
  p.ignore_eos = a.ignore_eos;
  for (const auto& [id, bias] : a.logit_bias) p.logit_bias.emplace_back(id, bias);
  engine::validate(p);
  serve::RequestDefaults defaults;
  defaults.sampling = std::move(p);
  defaults.max_tokens = a.max_tokens;
  defaults.max_tokens_is_cap = a.max_tokens_given;
  if (a.reasoning_budget >= 0) defaults.reasoning_budget = a.reasoning_budget;
  defaults.chat_template_kwargs = template_variables(a);
  defaults.stop = a.stop;
  defaults.grammar = compile_grammar(a.grammar, loaded.tokenizer.get());
  return defaults;
}

serve::ServedModel make_served_model(const ServeArguments& a, const LoadedChatModel& loaded) {
  serve::ServedModel served;
  served.aliases = name_set(a.alias);
  served.id = served.aliases.empty() ? default_id(loaded) : served.aliases.front();
  served.path = loaded.location.path;
  served.family = loaded.checkpoint.model_type();
  served.created_unix_s = std::time(nullptr);
  served.num_parameters = parameter_count(loaded.checkpoint);
  served.weight_bytes = loaded.checkpoint.weight_bytes();
  served.vocab_size = static_cast<int32_t>(loaded.lm->spec().vocab_size);
  served.train_context_tokens = static_cast<int32_t>(loaded.lm->spec().max_positions);
  served.tokenizer = loaded.tokenizer;
  served.chat = loaded.chat;
  served.stop_ids = loaded.eos_ids;
  served.engine = engine::Engine::start(loaded.lm, loaded.tokenizer, a.engine);
  return served;
}

serve::GenerationOptions make_generation_options(const ServeArguments& a) {
  serve::GenerationOptions g;
  g.reasoning_format = reasoning_format(a.reasoning_format);
  g.reasoning_alias = a.reasoning_alias;
  g.skip_chat_parsing = a.skip_chat_parsing;
  g.prefill_assistant = a.prefill_assistant;
  g.spm_infill = a.spm_infill;
  g.verbose = a.verbose;
  g.responses = {a.responses_entries, a.responses_bytes, a.responses_ttl_s};
  g.vertex_predict_path = vertex_path("AIP_PREDICT_ROUTE", "/predict");
  g.conversations = {a.conversation_entries, a.conversation_bytes, a.conversation_ttl_s};
  return g;
}

serve::AdminOptions make_admin_options(const ServeArguments& a, const LoadedChatModel& loaded,
                                       serve::SettingsStore* settings) {
  serve::AdminOptions options;
  options.tags = name_set(a.tags);
  options.weight_format = loaded.checkpoint.gguf ? "gguf" : "safetensors";
  options.quantization = quantization(loaded.checkpoint);
  options.hidden_size = static_cast<int32_t>(loaded.lm->spec().hidden_size);
  options.settings = settings;
  options.vertex_health_path = vertex_path("AIP_HEALTH_ROUTE", "");
  options.started_unix_s = std::time(nullptr);
  return options;
}

Json fixed_settings(const ServeArguments& a, const serve::ServedModel& model) {
  return Json::object({{"model", model.id},
                       {"host", a.http.host},
                       {"port", a.http.port},
                       {"parallel", a.num_slots},
                       {"max_batch_size", a.engine.max_batch},
                       {"max_queue_depth", a.engine.max_queue_depth},
                       {"context_size", model.engine->context_tokens()},
                       {"prompt_cache_enabled", a.engine.prefix_cache},
                       {"api_prefix", a.api_prefix},
                       {"slots", a.slots_endpoint},
                       {"props", a.props_endpoint},
                       {"metrics", a.metrics_endpoint}});
}

}  // namespace mlxcel::apps
