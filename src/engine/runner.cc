#include "engine/runner.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "tensor/device.h"

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
  bool best_only = true;                 // every row with logits asks for no more
  DecodeGraphs::Entry* graph = nullptr;  // of a step that is replayed
  int64_t index_bytes = 0;               // staged for it
  int64_t num_logits = 0;
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
    : model_(std::move(model)), cache_(std::move(layout), options), worker_(synchronous) {
  if (options.device.kind != DeviceKind::Cpu) {
    graphs_ = std::make_unique<DecodeGraphs>(*model_, cache_);
  }
}

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
    step->segments.push_back({.row = begin,
                              .q_len = length,
                              .kv_len = a.num_tokens + length,
                              .cache_row = a.state_row,
                              .prompt_len = a.prompt_len});
    step->caches.add(a, begin, length);
    const int32_t wanted = logits_of(row);
    if (wanted > 0 && !row.best_only) step->best_only = false;
    step->output.first_logits.push_back(wanted > 0 ? static_cast<int32_t>(logit_rows.size()) : -1);
    for (int32_t i = length - wanted; i < length; ++i) logit_rows.push_back(begin + i);
  }
  step->num_logits = std::ssize(logit_rows);
  put_indices(*step, positions, logit_rows);
  step->batch.segments = step->segments;
  step->batch.caches = &step->caches;
  step_ = std::move(step);
  in_flight_ = true;
  worker_.start([this, s = step_.get()] {
    const auto begin = Clock::now();
    run_forward(*s);
    s->output.forward_ms = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  });
}

// Token ids, positions, rows with logits and attention plans, in one copy when there is a device.
void Runner::put_indices(Step& step, const std::vector<int32_t>& positions,
                         const std::vector<int32_t>& logit_rows) {
  const auto num_tokens = static_cast<int64_t>(positions.size());
  const auto num_logits = static_cast<int64_t>(logit_rows.size());
  if (spec().device.kind == DeviceKind::Cpu) {
    step.batch.token_ids = Tensor::of(std::span<const int32_t>(step.tokens), {num_tokens});
    step.batch.positions = Tensor::of(std::span<const int32_t>(positions), {num_tokens});
    step.batch.logit_rows = Tensor::of(std::span<const int32_t>(logit_rows), {num_logits});
    return;
  }
  const bool decoding = num_tokens == num_logits && std::ssize(step.rows) == num_tokens;
  if (decoding) {
    int32_t longest = 0;
    for (const nn::Segment& segment : step.segments) longest = std::max(longest, segment.kv_len);
    step.graph = graphs_->find(static_cast<int32_t>(num_tokens), longest);
  }
  if (step.graph != nullptr) {
    const auto words = DecodeGraphs::indices(*step.graph, step.tokens, positions, step.caches);
    stage(words);
    step.index_bytes = std::ssize(words) * 4;
    return;
  }
  std::vector<int32_t> words(step.tokens.begin(), step.tokens.end());
  words.insert(words.end(), positions.begin(), positions.end());
  words.insert(words.end(), logit_rows.begin(), logit_rows.end());
  step.caches.write_plans(static_cast<int32_t>(num_tokens), words);
  stage(words);
  const int64_t bytes = std::ssize(words) * 4;
  DeviceRuntime& runtime = device_runtime(spec().device);
  const auto memory = runtime.allocate(bytes);
  runtime.upload(memory->data(), staging_->data(), bytes);
  const auto part = [&](int64_t begin, int64_t count) {
    return Tensor::over(memory, begin * 4, {count}, DType::I32);
  };
  step.batch.token_ids = part(0, num_tokens);
  step.batch.positions = part(num_tokens, num_tokens);
  step.batch.logit_rows = part(2 * num_tokens, num_logits);
  step.caches.bind_plans(static_cast<const int32_t*>(memory->data()));
}

void Runner::stage(const std::vector<int32_t>& words) {
  const auto bytes = static_cast<int64_t>(words.size() * sizeof(int32_t));
  if (!staging_ || staging_->size() < bytes) {
    staging_ = device_runtime(spec().device).pinned(bytes * 2);
  }
  std::memcpy(staging_->data(), words.data(), static_cast<size_t>(bytes));
}

void Runner::run_forward(Step& step) {
  if (step.graph == nullptr) {
    const Tensor logits = model_->forward(step.batch);
    const bool choose =
        step.best_only && logits.device().kind != DeviceKind::Cpu && logits.numel() > 0;
    return take_results(step, logits, choose ? ops::argmax_rows(logits) : Tensor());
  }
  DecodeGraphs::Entry& entry = *step.graph;
  device_runtime(spec().device).upload(entry.indices->data(), staging_->data(), step.index_bytes);
  graphs_->run(entry);
  const int64_t rows = std::ssize(step.rows);
  take_results(step, entry.logits.slice(0, 0, rows),
               step.best_only ? entry.best.slice(0, 0, rows) : Tensor());
}

void Runner::take_results(Step& step, const Tensor& logits, const Tensor& best) {
  if (best) {
    const Tensor host = to_host(best);
    const auto ids = host.host<int32_t>();
    // -1: no number, or nothing allowed; the sampler says which.
    if (std::ranges::none_of(ids, [](int32_t id) { return id < 0; })) {
      step.output.best.assign(ids.begin(), ids.end());
      return;
    }
  }
  step.output.logits = to_host(logits);
}

// Waits for the device in any case: a failure belongs to the step that caused it.
Tensor Runner::to_host(const Tensor& t) {
  if (t.device().kind == DeviceKind::Cpu) return t;
  DeviceRuntime& runtime = device_runtime(t.device());
  if (t.numel() == 0) {
    runtime.synchronize();
    return Tensor::empty(t.shape(), t.dtype());
  }
  if (!landing_ || landing_->size() < t.bytes()) landing_ = runtime.pinned(t.bytes() * 2);
  Tensor host = Tensor::over(landing_, 0, t.shape(), t.dtype());
  runtime.download(host.raw(), t.raw(), t.bytes());
  return host;
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
  const int64_t wanted = step_->num_logits;
  const bool chosen = std::ssize(step_->output.best) == wanted;
  if (wanted > 0 && !chosen &&
      (!logits || logits.dtype() != DType::F32 ||
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
