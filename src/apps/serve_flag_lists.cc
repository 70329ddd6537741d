// Flags of `serve` that are refused or change nothing.
#include "apps/serve_flags.h"

namespace mlxcel::apps {
namespace {

using enum UnavailableFlag::Value;

constexpr UnavailableFlag kUnavailable[] = {
    // Router and WebUI
    {"--models-dir", One},
    {"--models-max", One},
    {"--models-preset", One},
    {"--models-autoload", None},
    {"--no-models-autoload", None},
    {"--webui,--ui", None},
    // Adapters and changes at load time
    {"--adapter,--lora", Many},
    {"--lora-scaled", Many},
    {"--lora-fuse", None},
    {"--lora-init-without-apply", None},
    {"--surgery", One},
    // KV quantization
    {"--kv-group-size", One},
    {"--kv-quant-scheme", One},
    {"--kv-skip-last-layer", One},
    {"--turbo-boundary-v", One},
    // Media
    {"--mmproj", One},
    {"--mmproj-url", One},
    {"--context-shift", None},
    {"--vision-cache-size", One},
    {"--media-path", One},
    {"--max-image-payload-size", One},
    {"--max-images", One},
    {"--video-max-frames", One},
    {"--video-fps", One},
    {"--max-image-width", One},
    {"--max-image-height", One},
    {"--max-image-decode-alloc-bytes", One},
    {"--audio-queue-depth", One},
    {"--audio-request-timeout-secs", One},
    {"--image-model", One},
    {"--enable-vlm-prefix-cache", None},
    // Embeddings and reranking
    {"--embedding-model", One},
    {"--reranker-model", One},
    {"--embedding-batch-size", One},
    {"--embedding-max-length", One},
    {"--embedding-queue-depth", One},
    {"--embedding-request-timeout-secs", One},
    {"--rerank-batch-size", One},
    {"--pooling", One},
    {"--embd-normalize", One},
    {"--embedding,--embeddings", None},
    {"--rerank,--reranking", None},
    // Speculation and diffusion
    {"--draft-model,--model-draft,--spec-draft-model", One},
    {"--draft-max,--draft,--draft-n,--spec-draft-n-max", One},
    {"--spec-draft-n-min,--draft-min", One},
    {"--draft-kind,--spec-type", One},
    {"--draft-block-size", One},
    {"--prompt-lookup-max-batch", One},
    {"--max-denoising-steps", One},
    {"--diffusion-sampler", One},
    {"--diffusion-threshold", One},
    // Slots on disk
    {"--slot-save-path", One},
    // Several machines or devices
    {"--distributed-config", One},
    {"--node-role", One},
    {"--node-id", One},
    {"--peers", One},
    {"--serving-bind", One},
    {"--prefill-peers", One},
    {"--decode-peers", One},
    {"--pp-layers", One},
    {"--pp-micro-batch-size", One},
    {"--pp-auto", One},
    {"--pp-peer", None},
    {"--cluster-discovery", One},
    {"--cluster-discovery-port", One},
    {"--cluster-name", One},
    {"--cluster-peers", One},
    {"--cluster-control-addr", One},
    {"--cluster-config-out", One},
    {"--dry-run", None},
    {"--enable-elastic-pp", None},
    {"--elastic-pp-drain-timeout", One},
    {"--elastic-pp-pressure-fraction", One},
    {"--elastic-pp-cool-down", One},
    {"--metrics-port", One},
    {"--tp-size", One},
    {"--tp-moe-mode", One},
    {"--tp-embedding-mode", One},
    {"--tp-lm-head-mode", One},
};

constexpr const char* kOwnUi = "it configures llama-server's own browser interface";
constexpr RefusedFlag kRefused[] = {
    {"--model-url", One, "models are named by path or owner/name; download the file first"},
    {"--docker-repo", One, "models come from the hub or from disk, not from Docker"},
    {"--log-prompts-dir", One, "prompts are never written to disk"},
    {"--ui-config", One, kOwnUi},
    {"--ui-config-file", One, kOwnUi},
    {"--path", One, "no files are served; put a web server in front"},
    {"--tools", One, "the server never runs tools; clients do"},
    {"--tools-runtime", One, "the server never runs tools; clients do"},
    {"--mcp-servers-config", One, "the server connects to no MCP servers; clients do"},
    {"--mcp-servers-json", One, "the server connects to no MCP servers; clients do"},
    {"--ui-mcp-proxy", None, "the server connects to no MCP servers; clients do"},
    {"--agent", None, "the server never runs tools; clients do"},
};

// What llama-server's flags choose here is chosen by the engine, or does not exist.
constexpr UnavailableFlag kIdle[] = {
    {"--ubatch-size", One},
    {"--threads-batch", One},
    {"--n-gpu-layers,--gpu-layers", One},
    {"--cont-batching,--no-cont-batching", None},
    {"--flash-attn", One},
    {"--kv-unified,--no-kv-unified", None},
    {"--kv-offload,--no-kv-offload", None},
    {"--op-offload,--no-op-offload", None},
    {"--repack,--no-repack", None},
    {"--swa-full", None},
    {"--mlock", None},
    {"--mmap,--no-mmap", None},
    {"--direct-io,--no-direct-io", None},
    {"--numa", One},
    {"--split-mode", One},
    {"--tensor-split", One},
    {"--main-gpu", One},
    {"--device", One},
    {"--fit", One},
    {"--prio", One},
    {"--poll", One},
    {"--cpu-mask", One},
    {"--jinja,--no-jinja", None},
    {"--escape,--no-escape", None},
    {"--perf,--no-perf", None},
    {"--no-mmproj", None},
    {"--mmproj-auto,--no-mmproj-auto", None},
    {"--no-webui,--no-ui", None},
    {"--no-context-shift", None},
    {"--cache-idle-slots,--no-cache-idle-slots", None},
    {"--cache-prompt", None},
    {"--ctx-checkpoints,--swa-checkpoints", One},
    {"--keep", One},
    {"--check-tensors", None},
    {"--slot-prompt-similarity", One},
    {"--log-colors", One},
    {"--log-prefix,--no-log-prefix", None},
    {"--log-timestamps,--no-log-timestamps", None},
    {"--simple-io", None},
    {"--apc-block-size", One},
    {"--apc-num-blocks", One},
};

}  // namespace

std::span<const UnavailableFlag> unavailable_serve_flags() { return kUnavailable; }
std::span<const RefusedFlag> refused_serve_flags() { return kRefused; }
std::span<const UnavailableFlag> idle_serve_flags() { return kIdle; }

std::string canonical_flag(const std::string& argument) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"-ngl", "--n-gpu-layers"}, {"-fa", "--flash-attn"},
      {"-ctk", "--cache-type-k"}, {"-ctv", "--cache-type-v"},
      {"-cb", "--cont-batching"}, {"-nocb", "--no-cont-batching"},
      {"-np", "--parallel"},      {"-ub", "--ubatch-size"},
      {"-tb", "--threads-batch"}, {"-hf", "--hf-repo"},
      {"-hfr", "--hf-repo"},      {"-hff", "--hf-file"},
      {"-hft", "--hf-token"},     {"-lv", "--log-verbosity"},
      {"-mu", "--model-url"},     {"-md", "--model-draft"},
      {"-sm", "--split-mode"},    {"-ts", "--tensor-split"},
      {"-mg", "--main-gpu"},      {"-dev", "--device"},
      {"-kvu", "--kv-unified"},   {"-nkvo", "--no-kv-offload"},
      {"-to", "--timeout"},       {"-sps", "--slot-prompt-similarity"},
      {"-cram", "--cache-ram"},   {"-mm", "--mmproj"},
      {"-rea", "--reasoning"},    {"-dr", "--docker-repo"},
      {"-dio", "--direct-io"},    {"-ctxcp", "--ctx-checkpoints"}};
  const size_t equals = argument.find('=');
  const std::string_view name = std::string_view(argument).substr(0, equals);
  for (const auto& [shortened, full] : kNames) {
    if (name != shortened) continue;
    return std::string(full) + (equals == std::string::npos ? "" : argument.substr(equals));
  }
  return argument;
}

}  // namespace mlxcel::apps
