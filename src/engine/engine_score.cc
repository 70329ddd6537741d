// Logits of every position of a text, one piece a tick, beside the running rows.
#include <algorithm>
#include <cstring>

#include "engine/engine_core.h"

namespace mlxcel::engine {

void EngineCore::start_score(std::vector<TokenId> tokens, int32_t chunk_tokens,
                             std::promise<Result<Tensor>> promise) {
  ScoreJob job;
  job.chunk_tokens = chunk_tokens > 0 ? chunk_tokens : resolved_.step_tokens;
  try {
    job.logits =
        Tensor::empty({static_cast<int64_t>(tokens.size()), runner_.spec().vocab_size}, DType::F32);
  } catch (const Error& e) {
    promise.set_value(e);
    return;
  }
  job.tokens = std::move(tokens);
  job.promise = std::move(promise);
  if (failed_ || stopping_) {
    job.promise.set_value(Error(Code::Internal, "the engine has stopped"));
    return;
  }
  scores_.push_back(std::move(job));
}

// Runs one piece of the first job; false when there was nothing to run or no room for it.
bool EngineCore::score_step() {
  if (scores_.empty()) return false;
  ScoreJob& job = scores_.front();
  KvCache& kv = runner_.cache();
  const auto total = static_cast<int32_t>(job.tokens.size());
  try {
    while (!job.cache.open && !kv.open(job.cache, total)) {
      if (prefix_ && prefix_->evict_one()) continue;
      if (!rows_.empty()) return false;
      throw Error(Code::ResourceExhausted, "KV cache budget exhausted");
    }
    job.cache.prompt_len = total;
    const int32_t piece = std::min(job.chunk_tokens, total - job.cache.num_tokens);
    while (!kv.reserve(job.cache, piece)) {
      if (prefix_ && prefix_->evict_one()) continue;
      if (!rows_.empty()) return false;  // they give blocks back when they end
      throw Error(Code::ResourceExhausted, "KV cache budget exhausted");
    }
    deliver(false);
    sweep_ended();
    const auto begin = static_cast<size_t>(job.cache.num_tokens);
    const RowInput row{
        .cache = &job.cache,
        .tokens = std::span<const TokenId>(job.tokens).subspan(begin, static_cast<size_t>(piece)),
        .logits = RowInput::Logits::All};
    runner_.launch({&row, 1});
    const StepOutput output = runner_.finish();
    runner_.commit(0, piece);
    const auto vocab = static_cast<size_t>(runner_.spec().vocab_size);
    std::ranges::copy(output.logits.host<float>(), job.logits.host_mut<float>().begin() +
                                                       static_cast<std::ptrdiff_t>(begin * vocab));
    if (job.cache.num_tokens == total) finish_score(job.logits);
  } catch (const Error& e) {
    runner_.abandon();
    finish_score(e);
  }
  return true;
}

void EngineCore::finish_score(Result<Tensor> result) {
  ScoreJob job = std::move(scores_.front());
  scores_.pop_front();
  runner_.cache().close(job.cache);
  admission_blocked_ = false;
  job.promise.set_value(std::move(result));
}

}  // namespace mlxcel::engine
