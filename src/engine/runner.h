// Turns rows into one ragged batch and runs it: the only caller of CausalLm::forward. Prefill,
// decode and verification differ only in the lengths of the rows and in the logits they ask for.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/decode_graphs.h"
#include "engine/kv_cache.h"
#include "engine/step_worker.h"
#include "nn/causal_lm.h"
#include "text/tokenizer.h"

namespace mlxcel::engine {

using text::TokenId;

/// What one sequence contributes to a step: a prompt piece, its last token, or a draft block.
struct RowInput {
  enum class Logits : uint8_t { None, Last, All };
  CacheAllocation* cache = nullptr;  // reserved for tokens.size() more; unchanged until commit()
  std::span<const TokenId> tokens;   // copied by launch()
  Logits logits = Logits::Last;
  bool best_only = false;   // of the logits nothing but the largest is wanted
  bool may_unwind = false;  // commit() may keep fewer: recurrent state is saved first
};

struct StepOutput {
  Tensor logits;                      // [R, V] f32 on the host; valid until the next launch()
  std::vector<int32_t> first_logits;  // per row: its first row of `logits`; -1 = none
  /// The id of the largest logit of every row of `logits`, which is then left out: on a device,
  /// when every row asked for no more.
  std::vector<TokenId> best;
  double forward_ms = 0;
};

class Runner {
 public:
  /// `synchronous`: forwards run on the calling thread inside launch(). Throws as KvCache does.
  Runner(std::shared_ptr<const nn::CausalLm> model, KvLayout layout, const KvCacheOptions& options,
         bool synchronous);
  ~Runner();

  KvCache& cache() { return cache_; }
  const KvCache& cache() const { return cache_; }
  const nn::ModelSpec& spec() const { return model_->spec(); }

  /// Starts a forward over `rows` (at least one, each with at least one token); does not wait.
  void launch(std::span<const RowInput> rows);
  /// False when `deadline` came before the end of the forward.
  bool wait_until(std::chrono::steady_clock::time_point deadline);
  /// Waits. Throws Error "inference backend error: ..." when the forward failed: every row must
  /// then commit 0 tokens and be closed.
  StepOutput finish();
  /// Waits for a forward in flight, if any, and forgets its result.
  void abandon() noexcept;
  /// After finish(): keeps the first `kept` appends of row `index` of that step and unwinds the
  /// others. Recurrent state is restored and brought forward again over the kept tokens.
  void commit(size_t index, int32_t kept);

 private:
  struct Step;
  void put_indices(Step& step, const std::vector<int32_t>& positions,
                   const std::vector<int32_t>& logit_rows);
  void stage(const std::vector<int32_t>& words);
  void run_forward(Step& step);
  void take_results(Step& step, const Tensor& logits, const Tensor& best);
  Tensor to_host(const Tensor& t);
  void replay(CacheAllocation& a, const StateSnapshot& before, std::span<const TokenId> tokens);

  std::shared_ptr<const nn::CausalLm> model_;  // shared with the application
  KvCache cache_;
  std::unique_ptr<DecodeGraphs> graphs_;       // null on the CPU
  std::shared_ptr<Buffer> staging_, landing_;  // pinned; of one step, which ends before the next
  std::unique_ptr<Step> step_;                 // in flight, or finished and not yet replaced
  bool in_flight_ = false;
  StepWorker worker_;  // last: joined before the step goes away
};

}  // namespace mlxcel::engine
