#include "engine/runner.h"

#include <fmt/core.h>

#include <utility>

#include "base/error.h"
#include "base/log.h"

namespace mlxcel::engine {

using Clock = std::chrono::steady_clock;

// Everything a forward reads, kept alive until the next step replaces it.
struct Runner::Step {
  explicit Step(const KvCache& cache) : caches(cache) {}

  struct Row {
    CacheAllocation* cache = nullptr;
    int32_t begin = 0, length = 0;  // in `tokens`
    std::optional<StateSnapshot> before;
  };
  std::vector<TokenId> tokens;
  std::vector<Row> rows;
  std::vector<nn::Segment> segments;
  StepCaches caches;
  nn::Batch batch;
  StepOutput output;
};

namespace {

int32_t logits_of(const RowInput& row) {
  switch (row.logits) {
    case RowInput::Logits::None:
      return 0;
    case RowInput::Logits::Last:
      return 1;
    case RowInput::Logits::All:
      break;
  }
  return static_cast<int32_t>(row.tokens.size());
}

}  // namespace

Runner::Runner(std::shared_ptr<const nn::CausalLm> model, KvLayout layout,
               const KvCacheOptions& options, bool synchronous)
    : model_(std::move(model)), cache_(std::move(layout), options), worker_(synchronous) {}

Runner::~Runner() = default;

void Runner::launch(std::span<const RowInput> rows) {
  MLXCEL_CHECK(!rows.empty() && !in_flight_, "launch() takes at least one row and one step a time");
  auto step = std::make_unique<Step>(cache_);
  std::vector<int32_t> positions;
  std::vector<int32_t> logit_rows;
  for (const RowInput& row : rows) {
    const auto length = static_cast<int32_t>(row.tokens.size());
    const auto begin = static_cast<int32_t>(step->tokens.size());
    const CacheAllocation& a = *row.cache;
    MLXCEL_CHECK(length > 0 && a.num_reserved - a.num_tokens >= length,
                 "a row needs tokens and storage for them");
    step->rows.push_back({.cache = row.cache, .begin = begin, .length = length, .before = {}});
    if (row.may_unwind && cache_.layout().recurrent) {
      step->rows.back().before = cache_.save_state(a);
    }
    step->tokens.insert(step->tokens.end(), row.tokens.begin(), row.tokens.end());
    for (int32_t i = 0; i < length; ++i) positions.push_back(a.num_tokens + i);
    step->segments.push_back(
        {.row = begin, .q_len = length, .kv_len = a.num_tokens + length, .cache_row = a.state_row});
    step->caches.add(a, begin, length);
    const int32_t wanted = logits_of(row);
    step->output.first_logits.push_back(wanted > 0 ? static_cast<int32_t>(logit_rows.size()) : -1);
    for (int32_t i = length - wanted; i < length; ++i) logit_rows.push_back(begin + i);
  }
  const auto num_tokens = static_cast<int64_t>(positions.size());
  const auto num_logits = static_cast<int64_t>(logit_rows.size());
  step->batch.token_ids = Tensor::of(std::span<const int32_t>(step->tokens), {num_tokens});
  step->batch.positions = Tensor::of(std::span<const int32_t>(positions), {num_tokens});
  step->batch.logit_rows = Tensor::of(std::span<const int32_t>(logit_rows), {num_logits});
  step->batch.segments = step->segments;
  step->batch.caches = &step->caches;
  step_ = std::move(step);
  in_flight_ = true;
  worker_.start([this, s = step_.get()] {
    const auto begin = Clock::now();
    s->output.logits = model_->forward(s->batch);
    s->output.forward_ms = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  });
}

bool Runner::wait_until(Clock::time_point deadline) { return worker_.wait_until(deadline); }

StepOutput Runner::finish() {
  MLXCEL_CHECK(in_flight_, "no step is in flight");
  in_flight_ = false;
  constexpr std::string_view kContext = "inference backend error";
  try {
    worker_.collect();
  } catch (const Error& e) {
    throw e.within(kContext);
  } catch (const std::exception& e) {
    throw Error(Code::Internal, fmt::format("{}: {}", kContext, e.what()));
  }
  const Tensor& logits = step_->output.logits;
  const int64_t wanted = step_->batch.logit_rows.numel();
  if (wanted > 0 && (!logits || logits.dtype() != DType::F32 ||
                     !(logits.shape() == Shape{wanted, spec().vocab_size}))) {
    throw Error(Code::Internal,
                fmt::format("{}: expected f32 logits [{}, {}], found {}", kContext, wanted,
                            spec().vocab_size, logits ? logits.shape().str() : "nothing"));
  }
  return std::move(step_->output);
}

void Runner::abandon() noexcept {
  if (!std::exchange(in_flight_, false)) return;
  try {
    worker_.collect();
  } catch (const std::exception& e) {
    log::debug("an abandoned step failed: {}", e.what());
  }
}

void Runner::commit(size_t index, int32_t kept) {
  MLXCEL_CHECK(!in_flight_ && step_ && index < step_->rows.size(), "no such row in the last step");
  Step::Row& row = step_->rows[index];
  MLXCEL_CHECK(kept >= 0 && kept <= row.length, "more tokens kept than the row appended");
  if (kept == row.length || !cache_.layout().recurrent) {
    cache_.commit(*row.cache, kept);
    return;
  }
  cache_.commit(*row.cache, 0);
  if (!row.before) {
    MLXCEL_CHECK(kept == 0, "a recurrent row can only be unwound when its state was saved");
    return;  // the state is spoilt; the caller closes the sequence
  }
  const std::vector<TokenId> tokens(step_->tokens.begin() + row.begin,
                                    step_->tokens.begin() + row.begin + kept);
  replay(*row.cache, *row.before, tokens);
}

void Runner::replay(CacheAllocation& a, const StateSnapshot& before,
                    std::span<const TokenId> tokens) {
  cache_.load_state(a, before);
  if (tokens.empty()) return;
  // The blocks were given back a moment ago, so they are there.
  MLXCEL_CHECK(cache_.reserve(a, static_cast<int32_t>(tokens.size())), "replay without blocks");
  auto finished = std::move(step_);  // commit() of other rows still reads it
  const RowInput row{.cache = &a, .tokens = tokens, .logits = RowInput::Logits::None};
  launch({&row, 1});
  finish();
  step_ = std::move(finished);
  cache_.commit(a, static_cast<int32_t>(tokens.size()));
}

}  // namespace mlxcel::engine
