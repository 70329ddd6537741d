// stories260K, a trained model of one megabyte, in three storage forms: greedy text equal to what
// its author published, token for token.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "backend/register.h"
#include "base/file.h"
#include "base/json.h"
#include "golden/load_model.h"
#include "io/checkpoint.h"
#include "models/family.h"
#include "testing/direct_caches.h"
#include "testing/paths.h"

namespace mlxcel::testing {
namespace {

struct Form {
  const char* path;    // below tests/data/stories260K
  const char* golden;  // key of golden.json
};

void PrintTo(const Form& form, std::ostream* out) { *out << form.path; }

std::vector<int32_t> ids(const Json& list) {
  std::vector<int32_t> out;
  for (const Json& id : list.as_array()) out.push_back(static_cast<int32_t>(id.as_int()));
  return out;
}

class Stories : public ::testing::TestWithParam<Form> {
 protected:
  static void SetUpTestSuite() { backend::register_all(); }
  void SetUp() override {
    const std::string root = data_path("stories260K/");
    golden_ = Json::parse(read_file(root + "golden.json")).value();
    model_ = load_for_test(root + GetParam().path).lm;
  }
  Json golden_;
  std::unique_ptr<nn::CausalLm> model_;
};

TEST_P(Stories, GreedyTokensAreThePublishedOnes) {
  for (const Json& c : golden_.find("cases")->as_array()) {
    const Json& expected = *c.find(GetParam().golden);
    const auto prompt = ids(*c.find("prompt_ids"));
    const auto generated = ids(*expected.find("generated"));
    DirectCaches caches(model_->spec(), 1, 512);
    const DirectCaches::Piece piece{.sequence = 0, .tokens = prompt};
    Tensor logits = caches.forward(*model_, {&piece, 1});
    const auto& first = expected.find("first_logits")->as_array();
    double largest = 0.0, difference = 0.0;
    for (size_t i = 0; i < first.size(); ++i) {
      largest = std::max(largest, std::abs(first[i].as_double()));
      difference = std::max(difference, std::abs(first[i].as_double() - logits.host<float>()[i]));
    }
    EXPECT_LE(difference / largest, 1e-4);
    std::vector<int32_t> ours;
    while (ours.size() < generated.size()) {
      const auto row = logits.host<float>();
      ours.push_back(static_cast<int32_t>(std::ranges::max_element(row) - row.begin()));
      const DirectCaches::Piece next{.sequence = 0, .tokens = {ours.back()}};
      logits = caches.forward(*model_, {&next, 1});
    }
    EXPECT_EQ(ours, generated);
    fmt::print("| {:<16} | prompt {:>2} tokens | {} tokens equal | logits {:.1e} |\n",
               GetParam().path, prompt.size(), ours == generated ? generated.size() : 0,
               difference / largest);
  }
}

TEST_P(Stories, LikelihoodOfThePublishedTextAgrees) {
  const Json& text = golden_.find("cases")->as_array()[0];
  std::vector<int32_t> tokens = ids(*text.find("prompt_ids"));
  const auto rest = ids(*text.find("hf")->find("generated"));
  tokens.insert(tokens.end(), rest.begin(), rest.end());
  DirectCaches caches(model_->spec(), 1, 512);
  const DirectCaches::Piece piece{.sequence = 0, .tokens = tokens, .all_logits = true};
  const Tensor logits = caches.forward(*model_, {&piece, 1});
  double sum = 0.0;
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    const auto row = logits.host<float>().subspan(i * 512, 512);
    double total = 0.0;
    for (const float x : row) total += std::exp(double{x});
    sum += std::log(total) - double{row[static_cast<size_t>(tokens[i + 1])]};
  }
  const double mean = sum / static_cast<double>(tokens.size() - 1);
  EXPECT_NEAR(
      mean, golden_.find("mean_nll_of_published_text")->find(GetParam().golden)->as_double(), 2e-5);
}

INSTANTIATE_TEST_SUITE_P(Forms, Stories,
                         ::testing::Values(Form{"hf", "hf"}, Form{"stories260K.gguf", "hf"},
                                           Form{"stories260K-4bit", "stories260K-4bit"}),
                         [](const auto& form) {
                           std::string id = form.param.path;
                           std::erase_if(id, [](char ch) { return ch == '.' || ch == '-'; });
                           return id;
                         });

}  // namespace
}  // namespace mlxcel::testing
