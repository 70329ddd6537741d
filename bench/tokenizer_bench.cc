// Tokenizer speed. MLXCEL_BENCH_TOKENIZER names a tokenizer.json, *.tiktoken or tekken.json file,
// MLXCEL_BENCH_TEXT a text.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <random>

#include "base/file.h"
#include "text/tokenizer.h"

namespace mlxcel {
namespace {

std::unique_ptr<text::Tokenizer> parse(const std::string& path, const std::string& data) {
  if (path.ends_with("tekken.json")) return text::parse_tekken(data).value();
  if (path.ends_with(".json")) return text::parse_tokenizer_json(data).value();
  const auto lines = static_cast<size_t>(std::count(data.begin(), data.end(), '\n'));
  return text::parse_tiktoken(data, text::known_tiktoken_options(lines).value()).value();
}

struct Input {
  std::string path, data, text;
};

bool prepare(benchmark::State& state, Input& input) {
  const char* path = std::getenv("MLXCEL_BENCH_TOKENIZER");
  const char* text_path = std::getenv("MLXCEL_BENCH_TEXT");
  if (path == nullptr || text_path == nullptr) {
    state.SkipWithError("set MLXCEL_BENCH_TOKENIZER and MLXCEL_BENCH_TEXT");
    return false;
  }
  input = {path, read_file(path), read_file(text_path)};
  return true;
}

void encode_text(benchmark::State& state, const text::Tokenizer& tokenizer,
                 const std::string& text) {
  for (auto _ : state) benchmark::DoNotOptimize(tokenizer.encode(text));
  state.SetBytesProcessed(static_cast<int64_t>(text.size()) *
                          static_cast<int64_t>(state.iterations()));
}

void Load(benchmark::State& state) {
  Input input;
  if (!prepare(state, input)) return;
  for (auto _ : state) benchmark::DoNotOptimize(parse(input.path, input.data));
}
BENCHMARK(Load)->Unit(benchmark::kMillisecond);

void Encode(benchmark::State& state) {
  Input input;
  if (prepare(state, input)) encode_text(state, *parse(input.path, input.data), input.text);
}
BENCHMARK(Encode)->Unit(benchmark::kMillisecond);

// One mebibyte of letters without a space.
void EncodeOneWord(benchmark::State& state) {
  Input input;
  if (!prepare(state, input)) return;
  std::mt19937 random(1);
  std::string word(1 << 20, 'a');
  for (char& c : word) c = static_cast<char>('a' + random() % 26);
  encode_text(state, *parse(input.path, input.data), word);
}
BENCHMARK(EncodeOneWord)->Unit(benchmark::kMillisecond);

void Decode(benchmark::State& state) {
  Input input;
  if (!prepare(state, input)) return;
  const auto tokenizer = parse(input.path, input.data);
  const auto ids = tokenizer->encode(input.text);
  for (auto _ : state) benchmark::DoNotOptimize(tokenizer->decode(ids));
  state.SetItemsProcessed(static_cast<int64_t>(ids.size()) *
                          static_cast<int64_t>(state.iterations()));
}
BENCHMARK(Decode)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace mlxcel
