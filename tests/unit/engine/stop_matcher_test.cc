#include "engine/stop_matcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/error.h"
#include "base/utf8.h"
#include "harness.h"

namespace mlxcel::engine {
namespace {

struct Outcome {
  std::string text, match;
};

Outcome run(const std::vector<std::string>& stops, const std::vector<std::string>& pieces) {
  StopMatcher matcher(stops);
  Outcome out;
  for (const std::string& piece : pieces) out.text += matcher.push(piece);
  if (!matcher.matched()) out.text += matcher.flush();
  out.match = matcher.match();
  return out;
}

TEST(StopMatcher, AMatchAcrossPiecesIsCutAtEveryAlignment) {
  const std::string text = " L M N O P Q R S";
  for (size_t a = 0; a <= text.size(); ++a) {
    for (size_t b = a; b <= text.size(); ++b) {
      const Outcome out =
          run({"O P Q"}, {text.substr(0, a), text.substr(a, b - a), text.substr(b)});
      ASSERT_EQ(out.text, " L M N ") << a << " " << b;
      ASSERT_EQ(out.match, "O P Q");
    }
  }
}

TEST(StopMatcher, ReleasesHeldTextOnceTheMismatchIsCertain) {
  StopMatcher matcher({"abcd"});
  EXPECT_EQ(matcher.push("xab"), "x");
  EXPECT_EQ(matcher.push("c"), "");
  EXPECT_EQ(matcher.push("abx"), "abcabx");
  EXPECT_EQ(matcher.push("ab"), "");
  EXPECT_FALSE(matcher.matched());
  EXPECT_EQ(matcher.flush(), "ab");
}

TEST(StopMatcher, TheMatchThatEndsFirstWins) {
  EXPECT_EQ(run({"bcde", "cd"}, {"abcdef"}).text, "ab");
  EXPECT_EQ(run({"bcde", "cd"}, {"abcdef"}).match, "cd");
  EXPECT_EQ(run({"cd", "bcd"}, {"abcdef"}).match, "bcd");  // same end: the longer one
  EXPECT_EQ(run({"aab"}, {"aaab"}).text, "a");             // overlaps itself
  EXPECT_EQ(run({}, {"abc"}).text, "abc");
}

TEST(StopMatcher, IgnoresTextAfterTheMatch) {
  StopMatcher matcher({"!"});
  EXPECT_EQ(matcher.push("a!b"), "a");
  EXPECT_EQ(matcher.push("c"), "");
}

TEST(StopMatcher, RefusesWhatCannotMatch) {
  EXPECT_THROW(StopMatcher({""}), Error);
  EXPECT_THROW(StopMatcher({"\xff"}), Error);
  EXPECT_THROW(StopMatcher({std::string(5000, 'a')}), Error);
  EXPECT_THROW(StopMatcher(std::vector<std::string>(65, "a")), Error);
}

TEST(StopMatcher, RandomTextsAgreeWithASearchOfTheWhole) {
  std::mt19937 random(3);
  const auto letters = [&](size_t n) {
    std::string s(n, 'a');
    for (char& c : s) c = static_cast<char>('a' + random() % 3);
    return s;
  };
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::string> stops;
    for (unsigned i = 0; i < 1 + random() % 3; ++i) stops.push_back(letters(1 + random() % 4));
    const std::string text = letters(random() % 25);
    size_t end = std::string::npos;
    std::string match;
    for (const std::string& s : stops) {
      const size_t at = text.find(s);
      if (at == std::string::npos) continue;
      const size_t e = at + s.size();
      if (e < end || (e == end && s.size() > match.size())) {
        end = e;
        match = s;
      }
    }
    std::vector<std::string> pieces;
    for (size_t at = 0; at < text.size();) {
      const size_t n = 1 + random() % 4;
      pieces.push_back(text.substr(at, n));
      at += n;
    }
    const Outcome out = run(stops, pieces);
    ASSERT_EQ(out.match, match);
    ASSERT_EQ(out.text, match.empty() ? text : text.substr(0, end - match.size()));
  }
}

// Through the engine: token boundaries at every place of the text.
TEST(StopStrings, StreamedTextEndsBeforeTheStopAtEveryTokenAlignment) {
  using namespace testing;
  const std::string text = "one O P Q two";
  for (const bool force_sync : {false, true}) {
    for (size_t width = 1; width <= 6; ++width) {
      for (size_t first = 1; first <= width; ++first) {
        std::vector<std::string> bytes;
        for (size_t at = 0; at < text.size();) {
          const size_t n = at == 0 ? first : width;
          bytes.push_back(text.substr(at, n));
          at += n;
        }
        const auto num_tokens = static_cast<int32_t>(bytes.size());
        bytes.push_back("</s>");
        std::vector<int32_t> script;
        for (int32_t i = 0; i < num_tokens; ++i) script.push_back(i);
        script.push_back(num_tokens);
        script.resize(100, num_tokens);
        if (force_sync) ::setenv("MLXCEL_FORCE_SYNC", "", 1);
        auto engine = Engine::start(std::make_shared<ScriptedLm>(num_tokens + 1, 2, script),
                                    std::make_shared<FakeTokenizer>(bytes), test_options());
        ::unsetenv("MLXCEL_FORCE_SYNC");
        Request request = greedy({0, 0}, 50);
        request.stop_ids = {num_tokens};
        request.stop_strings = {"zzz", "O P Q"};
        const auto out = run_one(*engine, request);
        ASSERT_TRUE(out.done);
        EXPECT_EQ(out.text, "one ");
        EXPECT_EQ(out.done->matched_stop, "O P Q");
        EXPECT_EQ(out.done->reason, Finish::Stop);
        engine->check();
        request.stop_strings = {"zzz", "twoo"};  // a match that never completes
        const auto whole = run_one(*engine, request);
        EXPECT_EQ(whole.text, text);
        EXPECT_EQ(whole.done->matched_stop, "");
      }
    }
  }
}

// A limit that cuts a multi-byte character: valid text, one replacement at the very end.
TEST(StopStrings, ALimitInsideACharacterLeavesValidText) {
  using namespace testing;
  const std::vector<std::string> bytes = {"ok ", "\xF0", "\x9F", "\x98", "\x80", "</s>"};
  for (int32_t limit = 1; limit <= 5; ++limit) {
    auto engine =
        Engine::start(std::make_shared<ScriptedLm>(6, 1, std::vector<int32_t>{0, 1, 2, 3, 4, 5, 5}),
                      std::make_shared<FakeTokenizer>(bytes), test_options());
    const auto out = run_one(*engine, greedy({0}, limit));
    ASSERT_TRUE(out.done);
    EXPECT_EQ(out.done->reason, Finish::Length);
    EXPECT_TRUE(utf8::is_valid(out.text));
    EXPECT_EQ(out.text, limit == 1   ? "ok "
                        : limit == 5 ? "ok \xF0\x9F\x98\x80"
                                     : "ok \xEF\xBF\xBD");
    EXPECT_EQ(out.streamed, limit == 5 ? out.text : "ok ");
  }
}

}  // namespace
}  // namespace mlxcel::engine
