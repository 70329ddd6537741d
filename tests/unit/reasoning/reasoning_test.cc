#include "text/reasoning.h"

#include <gtest/gtest.h>

#include <string>

namespace mlxcel::text {
namespace {

constexpr const char* kThink = "{% if x %}<think>{{ y }}</think>{% endif %}";
constexpr const char* kHarmony = "<|start|>assistant<|channel|>analysis<|message|>";
constexpr const char* kGemma = "<|channel>thought\\n<channel|>";
constexpr const char* kCohere = "<|START_THINKING|><|END_THINKING|><|START_RESPONSE|>";

struct Case {
  const char* name;
  const char* source;
  const char* prompt;
  const char* text;
  const char* reasoning;
  const char* content;
};

const Case kCases[] = {
    {"plain", kThink, "", "Hello <b>there</b>.", "", "Hello <b>there</b>."},
    {"plain_space", kThink, "", "  \n Hello \n", "", "  \n Hello \n"},
    {"only_space", kThink, "", " \n", "", " \n"},
    {"think", kThink, "", "<think>\nwhy\n</think>\n\nbecause", "why", "because"},
    {"space_before", kThink, "", "\n <think>why</think>because", "why", "because"},
    {"opened_by_template", kThink, "<|im_start|>assistant\n<think>\n", "why not\n</think>\n\nyes",
     "why not", "yes"},
    {"opened_and_repeated", kThink, "a<think>\n", "<think>\nwhy</think>yes", "why", "yes"},
    {"closed_by_template", kThink, "assistant\n<think>\n\n</think>\n\n", "yes", "", "yes"},
    {"never_closed", kThink, "<think>\n", "still thinking \n", "still thinking", ""},
    {"half_marker_at_end", kThink, "<think>", "x </thi", "x </thi", ""},
    {"half_open_at_end", kThink, "", "<thi", "", "<thi"},
    {"almost_markers", kThink, "<think>", "a </think b </ think> c</think>d",
     "a </think b </ think> c", "d"},
    {"empty_block", kThink, "", "<think></think>done", "", "done"},
    {"empty_block_spaces", kThink, "", "<think>\n\n</think>\n\ndone", "", "done"},
    {"quoted_later", kThink, "", "Use <think> and </think> tags", "",
     "Use <think> and </think> tags"},
    {"quoted_after", kThink, "", "<think>a</think>Use <think> here", "a", "Use <think> here"},
    {"two_blocks", kThink, "", "<think>a</think>\n<think>b</think>c", "ab", "c"},
    {"user_mentions_tag", kThink, "user: what is <think>?<|im_end|>\n<|im_start|>assistant\n",
     "A tag.", "", "A tag."},
    {"prefilled", kThink, "<think>\nFirst, ", "then</think>ok", "then", "ok"},
    {"utf8", kThink, "<think>", "\u00e9\u4e00\U0001F600</think>\u00fc", "\u00e9\u4e00\U0001F600",
     "\u00fc"},
    {"less_than", kThink, "", "<", "", "<"},
    {"inner_space_kept", kThink, "<think>", " a \n b </think> c ", "a \n b", "c "},
    {"unknown_template", "no marker at all", "", "<think>a</think>b", "a", "b"},
    {"mistral", "[THINK] [/THINK]", "", "[THINK]a[/THINK]b", "a", "b"},
    {"mistral_later", "[THINK] [/THINK]", "", "x[THINK]a[/THINK]b", "a", "xb"},
    {"seed", "<seed:think></seed:think>", "<seed:think>", "a</seed:think>b", "a", "b"},
    {"kimi", "\u25C1think\u25B7\u25C1/think\u25B7", "", "\u25C1think\u25B7a\u25C1/think\u25B7b",
     "a", "b"},
    {"thought", "<thought></thought>", "<thought>\n", "a</thought>\nb", "a", "b"},
    {"hunyuan", "<think></think><answer></answer>", "", "<think>a</think>\n<answer>\nb\n</answer>",
     "a", "b\n"},
    {"granite", "<think></think><response></response>", "",
     "<think>a</think><response>b</response>", "a", "b"},
    {"apriel", "[BEGIN FINAL RESPONSE]", "assistant\nHere are my reasoning steps:\n",
     "a\n[BEGIN FINAL RESPONSE]\nb\n[END FINAL RESPONSE]\n", "a", "b\n"},
    {"cohere", kCohere, "",
     "<|START_THINKING|>a<|END_THINKING|><|START_RESPONSE|>b<|END_RESPONSE|>", "a", "b"},
    {"cohere_plain", kCohere, "", "<|START_RESPONSE|>b<|END_RESPONSE|>", "", "b"},
    {"gemma", kGemma, "", "<|channel>thought\na\n<channel|>b", "a", "b"},
    {"gemma_empty", kGemma, "", "<|channel>thought\n<channel|>b", "", "b"},
    {"gemma_later", kGemma, "", "x<|channel>thought\na<channel|>b", "a", "xb"},
    {"gemma_name_only", kGemma, "", "<|channel>thou", "", ""},
    {"harmony", kHarmony, "<|start|>assistant",
     "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>yes<|"
     "return|>",
     "hm", "yes"},
    {"harmony_commentary", kHarmony, "<|start|>assistant",
     "<|channel|>commentary<|message|>I will "
     "look.<|end|><|start|>assistant<|channel|>final<|message|>ok",
     "", "I will look.ok"},
    {"harmony_tool", kHarmony, "<|start|>assistant",
     "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>commentary "
     "to=functions.f <|constrain|>json<|message|>{}<|call|>",
     "hm", "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>"},
    {"harmony_recipient_first", kHarmony, "<|start|>assistant",
     " to=functions.f<|channel|>commentary<|message|>{}<|call|>", "",
     "to=functions.f<|channel|>commentary<|message|>{}<|call|>"},
    {"harmony_opened", kHarmony, "<|start|>assistant<|channel|>final<|message|>", "yes <|not|> x",
     "", "yes <|not|> x"},
    {"harmony_plain", kHarmony, "<|start|>assistant", "just text", "", "just text"},
    {"harmony_unended", kHarmony, "<|start|>assistant", "<|channel|>analysis<|message|>still <|en",
     "still <|en", ""},
    {"harmony_header_cut", kHarmony, "<|start|>assistant", "<|channel|>anal", "", ""},
};

ReasoningDelta feed(const Case& c, size_t piece) {
  const auto parser = make_reasoning_parser(c.source, c.prompt);
  ReasoningDelta all;
  const auto add = [&](const ReasoningDelta& delta) {
    all.reasoning += delta.reasoning;
    all.content += delta.content;
  };
  const std::string text = c.text;
  for (size_t at = 0; at < text.size(); at += piece) add(parser->push(text.substr(at, piece)));
  add(parser->finish());
  return all;
}

TEST(Reasoning, SplitsEveryDialectInPiecesOfAnySize) {
  for (const Case& c : kCases) {
    for (const size_t piece :
         {size_t{1}, size_t{2}, size_t{3}, size_t{5}, size_t{7}, size_t{1000}}) {
      const ReasoningDelta all = feed(c, piece);
      EXPECT_EQ(all.reasoning, c.reasoning) << c.name << " in pieces of " << piece;
      EXPECT_EQ(all.content, c.content) << c.name << " in pieces of " << piece;
    }
  }
}

TEST(Reasoning, EmptyPushesChangeNothing) {
  const auto parser = make_reasoning_parser(kThink, "");
  EXPECT_EQ(parser->push("").content, "");
  EXPECT_EQ(parser->push("<think>a</think>").reasoning, "a");
  EXPECT_EQ(parser->push("").content, "");
  EXPECT_EQ(parser->push("b").content, "b");
  EXPECT_EQ(parser->finish().content, "");
}

TEST(Reasoning, TextIsReleasedAsSoonAsItIsCertain) {
  const auto parser = make_reasoning_parser(kThink, "<think>\n");
  EXPECT_EQ(parser->push("One").reasoning, "One");
  EXPECT_EQ(parser->push(" two").reasoning, " two");
  EXPECT_EQ(parser->push("<").reasoning, "");
  EXPECT_EQ(parser->push("b>").reasoning, "<b>");
  EXPECT_EQ(parser->push("</think>").reasoning, "");
  EXPECT_EQ(parser->push("\n\nYes").content, "Yes");
  EXPECT_EQ(parser->push(" <").content, " <");
}

TEST(Reasoning, SpecialTokensAreAskedForOnlyWhereTheyAreMarkers) {
  EXPECT_FALSE(make_reasoning_parser(kThink, "")->needs_special_text());
  EXPECT_TRUE(make_reasoning_parser(kHarmony, "")->needs_special_text());
  EXPECT_TRUE(make_reasoning_parser(kGemma, "")->needs_special_text());
  EXPECT_TRUE(make_reasoning_parser(kCohere, "")->needs_special_text());
}

}  // namespace
}  // namespace mlxcel::text
