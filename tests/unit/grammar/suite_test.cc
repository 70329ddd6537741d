// The JSON Schema Test Suite as ground truth: no invalid instance may be possible, every valid one
// reachable, unless the schema was refused. `--gtest_also_run_disabled_tests --gtest_filter=*Table`
// prints the table of docs/structured-output.md.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "spelling.h"
#include "testing/paths.h"
#include "text/grammar/grammar.h"

namespace mlxcel::text {
namespace {

namespace fs = std::filesystem;

struct Count {
  int schemas = 0, refused = 0;
  int valid = 0, unreachable = 0, invalid = 0, accepted = 0;
};

struct Outcome {
  std::map<std::string, Count> files;
  std::vector<std::string> wrong;
  std::vector<double> compile_ms;
};

Json load(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  return Json::parse(text).value();
}

// "format" asserts here and only annotates there: an instance that fails a format is neither.
bool only_format(const std::string& file, bool valid) { return file == "format.json" && valid; }

void run_group(const std::string& file, const Json& group, Outcome& out) {
  Count& count = out.files[file];
  ++count.schemas;
  const auto begin = std::chrono::steady_clock::now();
  const auto grammar = Grammar::from_json_schema(*group.find("schema"));
  const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - begin;
  const std::string name = fmt::format("{}: {}", file, group.find("description")->as_string());
  if (!grammar.ok() && grammar.error().message().starts_with("nothing satisfies")) {
    for (const Json& test : group.find("tests")->as_array()) {
      if (test.find("valid")->as_bool()) out.wrong.push_back(name + " is said to be unsatisfiable");
      ++count.invalid;
    }
    return;
  }
  if (!grammar.ok()) {
    ++count.refused;
    // A refusal names a place and a keyword.
    if (grammar.error().message().find("#") == std::string::npos) {
      out.wrong.push_back(fmt::format("{}: {}", name, grammar.error().message()));
    }
    return;
  }
  out.compile_ms.push_back(spent.count());
  for (const Json& test : group.find("tests")->as_array()) {
    const bool valid = test.find("valid")->as_bool();
    if (only_format(file, valid)) continue;
    const auto spellings = canonical_spellings(*test.find("data"), 5040);
    const bool reached = std::ranges::any_of(
        spellings, [&](const std::string& s) { return grammar.value()->matches(s); });
    ++(valid ? count.valid : count.invalid);
    if (valid == reached) continue;
    ++(valid ? count.unreachable : count.accepted);
    out.wrong.push_back(fmt::format("{} / {}: {} {}", name, test.find("description")->as_string(),
                                    valid ? "unreachable" : "ACCEPTED", spellings[0]));
  }
}

Outcome run_suite() {
  Outcome out;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(testing::data_path("json-schema"))) {
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const fs::path& path : files) {
    const Json groups = load(path);
    for (const Json& group : groups.as_array()) run_group(path.filename().string(), group, out);
  }
  return out;
}

TEST(SchemaSuite, NoWrongAcceptsAndEverythingReachable) {
  const Outcome out = run_suite();
  ASSERT_EQ(out.files.size(), 35U);
  for (const std::string& w : out.wrong) ADD_FAILURE() << w;
}

TEST(SchemaSuite, DISABLED_Table) {
  Outcome out = run_suite();
  fmt::print(
      "| file | schemas | refused | valid reached | invalid kept out |\n|---|---|---|---|---|\n");
  Count sum;
  for (const auto& [file, c] : out.files) {
    fmt::print("| {} | {} | {} | {} of {} | {} of {} |\n", file, c.schemas, c.refused,
               c.valid - c.unreachable, c.valid, c.invalid - c.accepted, c.invalid);
    sum.schemas += c.schemas;
    sum.refused += c.refused;
    sum.valid += c.valid;
    sum.invalid += c.invalid;
    sum.unreachable += c.unreachable;
    sum.accepted += c.accepted;
  }
  fmt::print("| all | {} | {} | {} of {} | {} of {} |\n", sum.schemas, sum.refused,
             sum.valid - sum.unreachable, sum.valid, sum.invalid - sum.accepted, sum.invalid);
  std::sort(out.compile_ms.begin(), out.compile_ms.end());
  if (!out.compile_ms.empty()) {
    fmt::print("compile: median {:.2f} ms, worst {:.1f} ms\n",
               out.compile_ms[out.compile_ms.size() / 2], out.compile_ms.back());
  }
}

}  // namespace
}  // namespace mlxcel::text
