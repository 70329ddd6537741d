#include "apps/command_line.h"

#include <gmock/gmock.h>

#include <limits>

namespace mlxcel::apps {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

template <class T>
T parsed(const std::vector<std::string>& arguments) {
  const ParsedCommandLine line = parse_command_line(arguments);
  if (!line.command || !std::holds_alternative<T>(*line.command)) {
    ADD_FAILURE() << "not parsed as expected: " << line.err << line.out;
    return {};
  }
  return std::get<T>(*line.command);
}

std::string refused(const std::vector<std::string>& arguments) {
  const ParsedCommandLine line = parse_command_line(arguments);
  EXPECT_FALSE(line.command) << arguments.back();
  EXPECT_NE(line.exit_code, 0) << arguments.back();
  EXPECT_THAT(line.out, IsEmpty());
  EXPECT_THAT(line.err, HasSubstr("error: "));
  return line.err;
}

TEST(CommandLine, GenerateDefaults) {
  const auto g = parsed<GenerateArguments>({"generate", "-m", "some/model"});
  EXPECT_EQ(g.model.model, "some/model");
  EXPECT_FALSE(g.prompt);
  EXPECT_EQ(g.max_tokens, -1);
  EXPECT_FALSE(g.no_chat_template || g.show_reasoning || g.profile || g.estimate_memory || g.force);
  const engine::SamplingParams p = g.sampling.over({});
  EXPECT_EQ(p.temperature, 0.0F);
  EXPECT_EQ(p.top_k, 0);
  EXPECT_EQ(p.top_p, 1.0F);
  EXPECT_EQ(p.repeat_last_n, -1);
  EXPECT_FALSE(p.seed);
}

TEST(CommandLine, GenerateTakesEveryFlag) {
  const auto g = parsed<GenerateArguments>({"gen",
                                            "--model",
                                            "m",
                                            "-p",
                                            "--not a flag",
                                            "-n",
                                            "12",
                                            "--temp",
                                            "0.5",
                                            "--top-p",
                                            "0.9",
                                            "--top-k",
                                            "40",
                                            "--min-p",
                                            "0.05",
                                            "--repetition-penalty",
                                            "1.1",
                                            "--repeat-last-n",
                                            "-1",
                                            "--dry-multiplier",
                                            "0.8",
                                            "--dry-base",
                                            "2",
                                            "--dry-allowed-length",
                                            "3",
                                            "--dry-penalty-last-n",
                                            "64",
                                            "--top-nsigma",
                                            "1.5",
                                            "--typical",
                                            "0.95",
                                            "--p-less",
                                            "--seed",
                                            "42",
                                            "--stop",
                                            "END",
                                            "--stop",
                                            "STOP",
                                            "--profile",
                                            "--no-chat-template",
                                            "--show-reasoning",
                                            "--estimate-memory",
                                            "--no-memory-check",
                                            "--models-dir",
                                            "/store",
                                            "--revision",
                                            "v1",
                                            "--offline",
                                            "--hf-file",
                                            "x.gguf"});
  EXPECT_EQ(g.prompt, "--not a flag");
  EXPECT_EQ(g.max_tokens, 12);
  EXPECT_THAT(g.stop, ElementsAre("END", "STOP"));
  EXPECT_TRUE(g.profile && g.no_chat_template && g.show_reasoning && g.estimate_memory && g.force);
  EXPECT_EQ(g.model.hub.models_dir, "/store");
  EXPECT_EQ(g.model.hub.revision, "v1");
  EXPECT_EQ(g.model.hub.file, "x.gguf");
  EXPECT_TRUE(g.model.hub.offline);
  const engine::SamplingParams p = g.sampling.over({});
  EXPECT_FLOAT_EQ(p.temperature, 0.5F);
  EXPECT_FLOAT_EQ(p.top_p, 0.9F);
  EXPECT_EQ(p.top_k, 40);
  EXPECT_FLOAT_EQ(p.min_p, 0.05F);
  EXPECT_FLOAT_EQ(p.repetition_penalty, 1.1F);
  EXPECT_FLOAT_EQ(p.dry_multiplier, 0.8F);
  EXPECT_FLOAT_EQ(p.dry_base, 2.0F);
  EXPECT_EQ(p.dry_allowed_length, 3);
  EXPECT_EQ(p.dry_penalty_last_n, 64);
  EXPECT_FLOAT_EQ(p.top_n_sigma, 1.5F);
  EXPECT_FLOAT_EQ(p.typical_p, 0.95F);
  EXPECT_TRUE(p.p_less);
  EXPECT_EQ(p.seed, 42U);
}

TEST(CommandLine, EmptyPromptIsAPrompt) {
  EXPECT_EQ(parsed<GenerateArguments>({"generate", "-m", "m", "-p", ""}).prompt, "");
}

TEST(CommandLine, NegativeValuesAreValues) {
  EXPECT_EQ(parsed<GenerateArguments>({"generate", "-m", "m", "-n", "-1"}).max_tokens, -1);
  EXPECT_EQ(*parsed<GenerateArguments>({"generate", "-m", "m", "--seed", "-1"}).sampling.seed, -1);
}

TEST(CommandLine, RunTakesThePositionalModelAndChatSampling) {
  EXPECT_EQ(parsed<RunArguments>({"run"}).model.model, "mlx-community/gemma-4-e2b-it-4bit");
  const auto r = parsed<RunArguments>({"run",
                                       "Qwen3-4B-4bit",
                                       "-p",
                                       "hi",
                                       "--frequency-penalty",
                                       "0.1",
                                       "--presence-penalty",
                                       "0.2",
                                       "--xtc-probability",
                                       "0.3",
                                       "--xtc-threshold",
                                       "0.4",
                                       "--mirostat",
                                       "2",
                                       "--mirostat-lr",
                                       "0.2",
                                       "--mirostat-ent",
                                       "4",
                                       "--dynatemp-range",
                                       "0.5",
                                       "--dynatemp-exp",
                                       "2",
                                       "--dry-sequence-breaker",
                                       R"(\n,:,a\\b)"});
  EXPECT_EQ(r.model.model, "Qwen3-4B-4bit");
  const engine::SamplingParams p = r.sampling.over({});
  EXPECT_FLOAT_EQ(p.frequency_penalty, 0.1F);
  EXPECT_FLOAT_EQ(p.presence_penalty, 0.2F);
  EXPECT_FLOAT_EQ(p.xtc_probability, 0.3F);
  EXPECT_FLOAT_EQ(p.xtc_threshold, 0.4F);
  EXPECT_EQ(p.mirostat, 2);
  EXPECT_FLOAT_EQ(p.mirostat_eta, 0.2F);
  EXPECT_FLOAT_EQ(p.mirostat_tau, 4.0F);
  EXPECT_FLOAT_EQ(p.dynatemp_range, 0.5F);
  EXPECT_FLOAT_EQ(p.dynatemp_exponent, 2.0F);
  EXPECT_THAT(p.dry_sequence_breakers, ElementsAre("\n", ":", "a\\b"));
}

TEST(CommandLine, DryBreakersNone) {
  const auto r = parsed<RunArguments>({"run", "m", "--dry-sequence-breaker", "none"});
  EXPECT_THAT(r.sampling.over({}).dry_sequence_breakers, IsEmpty());
}

TEST(CommandLine, FlagsPutNothingOverWhatTheyDoNotName) {
  engine::SamplingParams base;
  base.temperature = 0.7F;
  base.top_k = 40;
  const auto r = parsed<RunArguments>({"run", "m", "--top-k", "5"});
  const engine::SamplingParams p = r.sampling.over(base);
  EXPECT_FLOAT_EQ(p.temperature, 0.7F);
  EXPECT_EQ(p.top_k, 5);
}

TEST(CommandLine, Inspect) {
  const auto i = parsed<InspectArguments>({"inspect", "-m", "m"});
  EXPECT_EQ(i.max_tokens, 8192);
  EXPECT_EQ(i.batch, 1);
  EXPECT_EQ(i.quant, "default");
  EXPECT_EQ(i.cache_type_k, "fp16");
  const auto j = parsed<InspectArguments>(
      {"inspect", "-m", "m", "--kv-cache-mode", "int8", "--quant", "i4", "--json", "--batch", "4"});
  EXPECT_EQ(j.cache_type_k, "int8");
  EXPECT_EQ(j.cache_type_v, "int8");
  EXPECT_EQ(j.quant, "int4");
  const auto k = parsed<InspectArguments>(
      {"inspect", "-m", "m", "--kv-cache-mode", "int8", "--cache-type-k", "int8"});
  EXPECT_EQ(k.cache_type_k, "int8");
  EXPECT_EQ(k.cache_type_v, "fp16") << "one split flag: the other side is fp16";
  EXPECT_THAT(refused({"inspect", "-m", "m", "--quant", "x"}),
              HasSubstr("--quant: unknown value 'x'; expected one of default, fp16, int8, int4"));
}

TEST(CommandLine, StoreCommands) {
  const auto l = parsed<ListArguments>({"ls", "--sort", "size", "-v", "--models-dir", "/s"});
  EXPECT_TRUE(l.verbose);
  EXPECT_EQ(l.sort, "size");
  EXPECT_TRUE(parsed<ListArguments>({"list", "--json"}).json);
  refused({"list", "--json", "-q"});
  refused({"list", "-q", "-v"});
  refused({"list", "--sort", "color"});
  EXPECT_TRUE(parsed<RemoveArguments>({"rm", "o/n", "-y"}).yes);
  const auto d = parsed<DownloadArguments>(
      {"download", "o/n", "--local-dir", "/x", "--token", "t", "--force", "--revision", "r"});
  EXPECT_EQ(d.repo_id, "o/n");
  EXPECT_EQ(d.hub.local_dir, "/x");
  EXPECT_EQ(d.hub.token, "t");
  EXPECT_TRUE(d.hub.force);
  EXPECT_TRUE(parsed<ArchArguments>({"supported", "--json"}).json);
}

TEST(CommandLine, WholeNumbersAreDecimal) {
  EXPECT_EQ(parsed<GenerateArguments>({"generate", "-m", "m", "-n", "010"}).max_tokens, 10);
  EXPECT_EQ(parsed<GenerateArguments>({"generate", "-m", "m", "--seed", "9223372036854775807"})
                .sampling.seed,
            std::numeric_limits<int64_t>::max());
}

TEST(CommandLine, VersionAndHelp) {
  parsed<VersionArguments>({"--version"});
  const ParsedCommandLine help = parse_command_line({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.out, HasSubstr("generate"));
  EXPECT_THAT(help.out, Not(HasSubstr("embed")));
  const ParsedCommandLine sub = parse_command_line({"generate", "--help"});
  EXPECT_EQ(sub.exit_code, 0);
  EXPECT_THAT(sub.out, HasSubstr("--max-tokens"));
  EXPECT_THAT(sub.out, Not(HasSubstr("--adapter")));
  EXPECT_NE(parse_command_line({}).exit_code, 0);
}

TEST(CommandLine, BadUseIsNamed) {
  refused({"generate"});
  EXPECT_THAT(refused({"generate", "-m", "m", "--no-such-flag"}), HasSubstr("--no-such-flag"));
  EXPECT_THAT(refused({"frobnicate"}), HasSubstr("frobnicate"));
  EXPECT_THAT(refused({"generate", "-m", "m", "-n", "many"}), HasSubstr("many"));
  EXPECT_THAT(refused({"generate", "-m", "m", "-n", "-2"}), HasSubstr("--max-tokens"));
  EXPECT_THAT(refused({"generate", "-m", "m", "-n", "99999999999"}), HasSubstr("99999999999"));
  EXPECT_THAT(refused({"generate", "-m", "m", "-n", ""}), HasSubstr("empty"));
  EXPECT_THAT(refused({"generate", "-m", "m", "-n", "0x10"}), HasSubstr("0x10"));
  EXPECT_THAT(refused({"generate", "-m", "m", "--temp", ""}), HasSubstr("empty"));
  EXPECT_THAT(refused({"generate", "-m", "m", "--seed", "9223372036854775808"}),
              HasSubstr("9223372036854775808"));
  EXPECT_THAT(refused({"inspect", "-m", "m", "-n", ""}), HasSubstr("empty"));
  EXPECT_THAT(refused({"generate", "-m", "m", "--temp", "hot"}), HasSubstr("hot"));
  EXPECT_THAT(refused({"generate", "-m", "m", "--temp", "-1"}), HasSubstr("temperature"));
  EXPECT_THAT(refused({"generate", "-m", "m", "--temp", "nan"}), HasSubstr("temperature"));
  EXPECT_THAT(refused({"generate", "-m", "m", "--top-p", "2"}), HasSubstr("top_p"));
  EXPECT_THAT(refused({"run", "m", "--mirostat", "3"}), HasSubstr("mirostat"));
  EXPECT_THAT(refused({"generate", "-m", "m", "--seed", "-5"}), HasSubstr("--seed"));
  EXPECT_THAT(refused({"generate", "-m", "m", "--stop", ""}), HasSubstr("--stop"));
  EXPECT_THAT(refused({"inspect", "-m", "m", "-n", "0"}), HasSubstr("--max-tokens"));
  EXPECT_THAT(refused({"inspect", "-m", "m", "--batch", "0"}), HasSubstr("--batch"));
}

}  // namespace
}  // namespace mlxcel::apps
