#include "apps/unavailable.h"

namespace mlxcel::apps {
namespace {

using enum UnavailableFlag::Value;

constexpr std::string_view kCommands[] = {"detect",
                                          "predict",
                                          "generate-image",
                                          "embed",
                                          "rerank",
                                          "tag",
                                          "extract",
                                          "tune",
                                          "split-mtp",
                                          "prepare-external-ple",
                                          "prepare-expert-stream"};

// Shared by generate and run; run's list ends where the flags that only generate has begin.
constexpr UnavailableFlag kGenerateFlags[] = {
    {"--adapter", One},
    {"--draft-model", One},
    {"--draft-kind", One},
    {"--draft-block-size", One},
    {"--image", Many},
    {"--image-soft-tokens", One},
    {"--layout-detections", One},
    {"--audio", One},
    {"--video", Many},
    {"--fps", One},
    {"--video-max-frames", One},
    {"--output-audio", One},
    {"--extra-decoding-seconds", One},
    {"--stream", None},
    {"--max-streaming-seconds", One},
    {"--speaker", One},
    {"--recommend-quant", None},
    {"--turbo-boundary-v", One},
    {"--max-denoising-steps", One},
    {"--diffusion-sampler", One},
    {"--diffusion-threshold", One},
    {"--diffusion-min-canvas-length", One},
    {"--diffusion-max-canvas-length", One},
    {"--diffusion-full-canvas", None},
    // Only generate has these.
    {"--surgery", One},
    {"--prompt-lookup", None},
    {"--prompt-lookup-ngram-max", One},
    {"--prompt-lookup-ngram-min", One},
    {"--prompt-lookup-max-draft", One},
    {"--prompt-lookup-no-adaptive", None},
    {"--prompt-lookup-policy", One},
    {"--pp-size", One},
    {"--pp-layers", One},
    {"--pp-micro-batch-size", One},
    {"--tp-size", One},
    {"--tp-moe-mode", One},
    {"--tp-embedding-mode", One},
    {"--tp-lm-head-mode", One},
    {"--lang-bias", One},
    {"--lang-bias-config", One},
    {"--lang-bias-policy", One},
    {"--lang-bias-include-special", None},
    {"--lang-bias-include-numeric", None},
    {"--lang-bias-include-punctuation", None},
    {"--lang-bias-include-byte-fragments", None},
    {"--lang-bias-rebuild-cache", None},
};
constexpr size_t kSharedWithRun = 24;
static_assert(kGenerateFlags[kSharedWithRun].names == "--surgery");

constexpr UnavailableFlag kInspectFlags[] = {{"--turbo-boundary-v", One}};

}  // namespace

std::span<const std::string_view> unavailable_commands() { return kCommands; }

std::span<const UnavailableFlag> unavailable_generate_flags() { return kGenerateFlags; }

std::span<const UnavailableFlag> unavailable_run_flags() {
  return std::span(kGenerateFlags).first(kSharedWithRun);
}

std::span<const UnavailableFlag> unavailable_inspect_flags() { return kInspectFlags; }

}  // namespace mlxcel::apps
