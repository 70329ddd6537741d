// Every golden checkpoint through the real path (files on disk, io::open_checkpoint, models::load)
// against the logits and the greedy tokens of the reference implementation.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "backend/register.h"
#include "golden/golden_case.h"
#include "golden/load_model.h"
#include "io/checkpoint.h"
#include "models/family.h"
#include "ops/activations.h"
#include "testing/device.h"
#include "testing/direct_caches.h"
#include "testing/paths.h"

namespace mlxcel::testing {
namespace {

struct Outcome {
  double error = 0.0;  // largest |ours - reference| / largest |reference|
  size_t equal_tokens = 0;
};

int32_t argmax(std::span<const float> row) {
  return static_cast<int32_t>(std::ranges::max_element(row) - row.begin());
}

Outcome run(const nn::CausalLm& model, const GoldenCase& c) {
  DirectCaches caches(model.spec(), 1, static_cast<int64_t>(c.prompt.size() + c.greedy.size()));
  const DirectCaches::Piece prompt{.sequence = 0, .tokens = c.prompt, .all_logits = true};
  Tensor logits = caches.forward(model, {&prompt, 1});  // [prompt, V]
  const auto vocab = static_cast<size_t>(logits.dim(1));
  Outcome out;
  double largest = 0.0, difference = 0.0;
  for (size_t i = 0; i < c.positions.size(); ++i) {
    const auto row =
        logits.host<float>().subspan(static_cast<size_t>(c.positions[i]) * vocab, vocab);
    for (size_t j = 0; j < vocab; ++j) {
      largest = std::max(largest, std::abs(double{c.logits[i][j]}));
      difference = std::max(difference, std::abs(double{row[j]} - double{c.logits[i][j]}));
      if (!std::isfinite(row[j])) difference = INFINITY;
    }
  }
  out.error = difference / largest;
  int32_t token = argmax(logits.host<float>().last(vocab));
  for (const int32_t expected : c.greedy) {
    if (token != expected) return out;
    ++out.equal_tokens;
    const DirectCaches::Piece next{.sequence = 0, .tokens = {token}};
    logits = caches.forward(model, {&next, 1});
    token = argmax(logits.host<float>());
  }
  return out;
}

void report(const GoldenCase& c, std::string_view file, const Outcome& o) {
  fmt::print("| {:<34} | {:<11} | {:<12} | {:.1e} | {}/{} |\n", c.name, file, c.storage(), o.error,
             o.equal_tokens, c.greedy.size());
}

/// What the checkpoints of one family showed.
struct FamilyOutcome {
  std::string oracle;
  int variants = 0;
  double error = 0.0;
};

class Golden : public ::testing::TestWithParam<std::string> {
 protected:
  static void SetUpTestSuite() { backend::register_all(); }
  static void TearDownTestSuite() {
    fmt::print("| family | oracle | checkpoints | largest error |\n");
    for (const auto& [family, o] : families()) {
      fmt::print("| {} | {} | {} | {:.1e} |\n", family, o.oracle, o.variants, o.error);
    }
  }
  static std::map<std::string, FamilyOutcome>& families() {
    static std::map<std::string, FamilyOutcome> all;
    return all;
  }

  /// On the CPU both ways of reading activations. Rounding them to sixteen bits is a relative error
  /// of 1e-5 at each product, which these tiny models amplify by about ten.
  void check(const GoldenCase& c, std::string_view file, const std::string& path) {
    for (const ops::Activations a : {ops::Activations::F32, ops::Activations::Auto}) {
      SCOPED_TRACE(ops::activations_name(a));
      ops::set_cpu_activations(a);
      check_once(c, file, path, a == ops::Activations::F32 ? 1e-4 : 5e-4);
    }
  }
  void check_once(const GoldenCase& c, std::string_view file, const std::string& path, double bar) {
    const auto loaded = load_for_test(path);
    const Outcome o = run(*loaded.lm, c);
    report(c, file, o);
    FamilyOutcome& family = families()[c.family()];
    family.oracle = c.oracle;
    family.variants += 1;
    family.error = std::max(family.error, o.error);
    // The reference multiplies the stored (rounded) weights in f32, so one bar serves all types.
    if (exact_activations()) {
      EXPECT_LE(o.error, bar);
      EXPECT_EQ(o.equal_tokens, c.greedy.size());
    } else {
      // bf16 keeps 8 bits of every activation and weight: a few of its units over some layers.
      EXPECT_LE(o.error, 4e-2);
    }
  }
};

TEST_P(Golden, SafetensorsMatchesTheReference) {
  const GoldenCase c = load_golden(GetParam());
  if (c.has_block_kinds()) GTEST_SKIP() << "stored in ggml blocks";
  const TempDir folder;
  write_safetensors_checkpoint(c, folder.path());
  check(c, "safetensors", folder.path());
}

TEST_P(Golden, GgufTwinMatchesTheReference) {
  const GoldenCase c = load_golden(GetParam());
  if (!has_gguf_twin(c)) GTEST_SKIP() << "GGUF has no words for this configuration";
  const TempDir folder;
  const std::string path = folder.file("model.gguf");
  write_gguf_checkpoint(c, path);
  check(c, "gguf", path);
}

INSTANTIATE_TEST_SUITE_P(Text, Golden, ::testing::ValuesIn(golden_names()), [](const auto& name) {
  std::string id = name.param;
  std::ranges::replace(id, '/', '_');
  return id;
});

}  // namespace
}  // namespace mlxcel::testing
