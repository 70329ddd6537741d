// What rounding activations to sixteen bits costs on a real model and text: perplexity of both
// paths and the mean divergence of their next-token distributions.
//
//   quality_bench MODEL TEXT [windows] [window tokens]
//
// Windows of the text, spread evenly, are each read from an empty cache; all their positions count.
// Prints one markdown row a path.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "apps/load_model.h"
#include "backend/register.h"
#include "base/error.h"
#include "base/file.h"
#include "ops/activations.h"
#include "ops/ops.h"
#include "testing/direct_caches.h"

namespace mlxcel {
namespace {

constexpr int64_t kPiece = 128;  // positions whose logits are held at once

std::shared_ptr<const nn::CausalLm> load(apps::LoadedChatModel& model, ops::Activations a) {
  ops::set_cpu_activations(a);
  apps::load_weights(model, Device{});
  return model.lm;
}

// Natural logarithms of a row's probabilities.
void log_softmax(std::span<const float> logits, std::vector<double>& out) {
  double largest = -INFINITY;
  for (const float v : logits) largest = std::max(largest, double{v});
  double sum = 0;
  for (const float v : logits) sum += std::exp(v - largest);
  const double offset = largest + std::log(sum);
  out.resize(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) out[i] = logits[i] - offset;
}

struct Totals {
  double nll[2] = {0, 0};
  double divergence = 0;  // KL(f32 || int16)
  double worst = 0;
  int64_t same_choice = 0;
  int64_t count = 0;
};

void add_rows(const Tensor (&logits)[2], std::span<const int32_t> next, Totals& t) {
  const auto vocab = static_cast<size_t>(logits[0].dim(1));
  std::vector<double> p, q;
  for (size_t i = 0; i < next.size(); ++i) {
    const auto a = logits[0].host<float>().subspan(i * vocab, vocab);
    const auto b = logits[1].host<float>().subspan(i * vocab, vocab);
    log_softmax(a, p);
    log_softmax(b, q);
    double divergence = 0;
    for (size_t j = 0; j < vocab; ++j) divergence += std::exp(p[j]) * (p[j] - q[j]);
    t.divergence += divergence;
    t.worst = std::max(t.worst, divergence);
    t.nll[0] -= p[static_cast<size_t>(next[i])];
    t.nll[1] -= q[static_cast<size_t>(next[i])];
    const auto best = [](auto row) { return std::ranges::max_element(row) - row.begin(); };
    t.same_choice += best(a) == best(b) ? 1 : 0;
    ++t.count;
  }
}

int run(const std::string& path, const std::string& text_path, int64_t windows, int64_t window) {
  backend::register_all();
  apps::LoadedChatModel model = apps::load_without_weights(path, {.path = path, .repo_id = {}});
  const auto f32 = load(model, ops::Activations::F32);
  const auto int16 = load(model, ops::Activations::Int16);
  const std::vector<int32_t> ids = model.tokenizer->encode(read_file(text_path));
  const auto total = static_cast<int64_t>(ids.size());
  if (total <= window) throw Error(Code::InvalidArgument, text_path + ": shorter than a window");
  Totals t;
  for (int64_t w = 0; w < windows; ++w) {
    const int64_t first = windows > 1 ? (total - window - 1) * w / (windows - 1) : 0;
    testing::DirectCaches caches[2] = {{f32->spec(), 1, window}, {int16->spec(), 1, window}};
    for (int64_t k = 0; k < window; k += kPiece) {
      const int64_t n = std::min(kPiece, window - k);
      const auto begin = ids.begin() + first + k;
      const testing::DirectCaches::Piece piece{
          .sequence = 0, .tokens = {begin, begin + n}, .all_logits = true};
      const Tensor logits[2] = {caches[0].forward(*f32, {&piece, 1}),
                                caches[1].forward(*int16, {&piece, 1})};
      const std::vector<int32_t> next(begin + 1, begin + n + 1);
      add_rows(logits, next, t);
    }
  }
  const auto n = static_cast<double>(t.count);
  fmt::print("{} positions in {} windows of {}\n\n", t.count, windows, window);
  fmt::print("| activations | nll | perplexity | change | mean KL | worst KL | same choice |\n");
  fmt::print("|---|---|---|---|---|---|---|\n");
  const double ppl[2] = {std::exp(t.nll[0] / n), std::exp(t.nll[1] / n)};
  fmt::print("| f32 | {:.5f} | {:.4f} | | | | |\n", t.nll[0] / n, ppl[0]);
  fmt::print("| int16 | {:.5f} | {:.4f} | {:+.3f} % | {:.2e} | {:.2e} | {:.2f} % |\n", t.nll[1] / n,
             ppl[1], 100 * (ppl[1] / ppl[0] - 1), t.divergence / n, t.worst,
             100.0 * static_cast<double>(t.same_choice) / n);
  return 0;
}

}  // namespace
}  // namespace mlxcel

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "usage: quality_bench MODEL TEXT [windows] [window tokens]\n");
    return 2;
  }
  try {
    return mlxcel::run(argv[1], argv[2], argc > 3 ? std::atol(argv[3]) : 20,
                       argc > 4 ? std::atol(argv[4]) : 512);
  } catch (const std::exception& e) {
    fmt::print(stderr, "error: {}\n", e.what());
    return 1;
  }
}
