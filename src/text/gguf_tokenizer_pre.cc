// The splitting patterns behind tokenizer.ggml.pre (github.com/ggml-org/llama.cpp lists the names).
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "base/error.h"
#include "text/gguf_tokenizer.h"

namespace mlxcel::text {
namespace {

#define MLXCEL_CONTRACTIONS R"((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]))"
#define MLXCEL_WORD R"([^\r\n\p{L}\p{N}]?\p{L}+)"
#define MLXCEL_SPACES R"(|\s+(?!\S)|\s+)"
#define MLXCEL_OTHERS R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+)" MLXCEL_SPACES
#define MLXCEL_UPPER R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])"
#define MLXCEL_LOWER R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])"
// llama.cpp's spelling of the capital-aware patterns: every letter but ASCII's of the other case.
#define MLXCEL_NO_SMALL R"((?:(?=\p{L})[^a-z]))"
#define MLXCEL_NO_CAPITAL R"((?:(?=\p{L})[^A-Z]))"
#define MLXCEL_NO_SMALL_M R"((?:(?=[\p{L}\p{M}])[^a-z]))"
#define MLXCEL_NO_CAPITAL_M R"((?:(?=[\p{L}\p{M}])[^A-Z]))"
#define MLXCEL_PREFIX R"([^\r\n\p{L}\p{N}]?)"
#define MLXCEL_ASCII_PUNCTUATION R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~])"

constexpr std::string_view kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kDigit = R"(\p{N})";
constexpr std::string_view kDigits3 = R"(\p{N}{1,3})";
constexpr std::string_view kLlama3 =
    MLXCEL_CONTRACTIONS "|" MLXCEL_WORD R"(|\p{N}{1,3})" MLXCEL_OTHERS;
constexpr std::string_view kQwen2 = MLXCEL_CONTRACTIONS "|" MLXCEL_WORD R"(|\p{N})" MLXCEL_OTHERS;
constexpr std::string_view kQwen35 =
    MLXCEL_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*)"
                        R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kMiniCpm5 =
    MLXCEL_CONTRACTIONS "|" MLXCEL_WORD R"(|\p{N}+)" MLXCEL_OTHERS;
constexpr std::string_view kUfakzeka = MLXCEL_WORD R"(|\p{N})" MLXCEL_OTHERS;
constexpr std::string_view kJais2 = MLXCEL_CONTRACTIONS
    "|" MLXCEL_WORD R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S))"
    R"(|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S))"
    R"(|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1})";
constexpr std::string_view kDeepSeekLetters =
    R"(\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+)";
constexpr std::string_view kDeepSeekPunctuation = R"(\s?[!-/:-~！-／：-～‘-‟　-。]+)";
constexpr std::string_view kDeepSeekCjk = R"([一-龥ࠀ-一가-퟿]+)";
constexpr std::string_view kDeepSeek3Cjk = R"([一-龥぀-ゟ゠-ヿ]+)";
constexpr std::string_view kDeepSeek3 = MLXCEL_ASCII_PUNCTUATION
    R"([A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+)" MLXCEL_SPACES;
constexpr std::string_view kSpark25 = MLXCEL_ASCII_PUNCTUATION
    R"([A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n])" MLXCEL_SPACES;
constexpr std::string_view kNewline = R"([\r\n])";
constexpr std::string_view kSpaceWord = R"(\s?\p{L}+)";
constexpr std::string_view kSpacePunctuation = R"(\s?\p{P}+)";
constexpr std::string_view kTrailingSpace = R"(\s+\z)";
constexpr std::string_view kDigitRun = R"(\p{N}+)";
constexpr std::string_view kFalconPunctuation = R"([\p{P}\$\+<=>\^~\|`]+)";
constexpr std::string_view kDefaultPunctuation = R"([\p{P}\$\+<=>\^~\|]+)";
constexpr std::string_view kThreeDigits = R"([0-9][0-9][0-9])";
constexpr std::string_view kBloom = R"( ?[^(\s|.,!?…。，、।۔،)]+)";
constexpr std::string_view kTekken = MLXCEL_PREFIX MLXCEL_NO_SMALL
    "*" MLXCEL_NO_CAPITAL "+|" MLXCEL_PREFIX MLXCEL_NO_SMALL "+" MLXCEL_NO_CAPITAL
    R"(*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+)" MLXCEL_SPACES;
constexpr std::string_view kGpt4o = MLXCEL_PREFIX MLXCEL_NO_SMALL
    "*" MLXCEL_NO_CAPITAL "+" MLXCEL_CONTRACTIONS "?|" MLXCEL_PREFIX MLXCEL_NO_SMALL
    "+" MLXCEL_NO_CAPITAL "*" MLXCEL_CONTRACTIONS
    R"(?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+)" MLXCEL_SPACES;
constexpr std::string_view kGraniteMulti = MLXCEL_PREFIX MLXCEL_NO_SMALL_M
    "*" MLXCEL_NO_CAPITAL_M "+" MLXCEL_CONTRACTIONS "?|" MLXCEL_PREFIX MLXCEL_NO_SMALL_M
    "+" MLXCEL_NO_CAPITAL_M "*" MLXCEL_CONTRACTIONS
    R"(?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+)" MLXCEL_SPACES;
constexpr std::string_view kTinyAyaDigits = R"(\d{1,3}(?=(?:\d{3})*\b))";
constexpr std::string_view kTinyAya = MLXCEL_PREFIX MLXCEL_UPPER
    "*" MLXCEL_LOWER "+" MLXCEL_CONTRACTIONS "?|" MLXCEL_PREFIX MLXCEL_UPPER "+" MLXCEL_LOWER
    "*" MLXCEL_CONTRACTIONS R"(?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+)" MLXCEL_SPACES;
constexpr std::string_view kYoutuScripts =
    R"([가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+)";
constexpr std::string_view kYoutu = MLXCEL_PREFIX MLXCEL_UPPER
    "*" MLXCEL_LOWER "+" MLXCEL_CONTRACTIONS "?|" MLXCEL_PREFIX MLXCEL_UPPER "+" MLXCEL_LOWER
    "*" MLXCEL_CONTRACTIONS R"(?|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+)" MLXCEL_SPACES;
constexpr std::string_view kChameleonSentinel = R"(<sentinel:[0-9]+>)";
constexpr std::string_view kChameleonImage = R"((IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z)";
constexpr std::string_view kChameleonSpace = R"(([\t\n]|    |  ))";
constexpr std::string_view kChameleonPunctuation = R"([\p{P}!-/:-@\[-`{-~])";
constexpr std::string_view kKimi =
    R"([\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*)"
    R"([\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+)" MLXCEL_CONTRACTIONS
    R"(?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+)"
    R"([\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*)" MLXCEL_CONTRACTIONS R"(?|\p{N}{1,3})" MLXCEL_OTHERS;
constexpr std::string_view kThousands = R"((?=(\d{3})+(?!\d)))";
constexpr std::string_view kBailing = R"('(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|)" MLXCEL_WORD
                                      R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n])" MLXCEL_SPACES;
constexpr std::string_view kSeedCoder = MLXCEL_CONTRACTIONS
    "|" MLXCEL_WORD R"(|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+)" MLXCEL_SPACES;
// Digits in groups of three counted from the end of their run.
constexpr std::string_view kAfmoeDigits = R"(\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N})))";
constexpr std::string_view kAfmoeScripts =
    R"([一-鿿㐀-䶿豈-﫿぀-ゟ゠-ヿ･-ﾟ⼀-⿟เ-๿຀-໿ក-៿က-႟ꩠ-ꩿꧠ-꧿가-힯ᄀ-ᇿ]+)";
constexpr std::string_view kLines = R"([^\n]+|[\n]+)";
constexpr std::string_view kExaoneMoe = MLXCEL_CONTRACTIONS
    R"(|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?)"
    R"(|\s*[\r\n])" MLXCEL_SPACES;
constexpr std::string_view kNonSpace = R"(\S+)";

struct Entry {
  std::string_view names;  // separated by single spaces
  std::array<std::string_view, 6> patterns;
  bool ignore_merges = false, add_bos = false, byte_level = true;
};

constexpr Entry kEntries[] = {
    {"default", {kDefaultPunctuation, kGpt2, kDigitRun, kThreeDigits}},
    {"llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
     {kLlama3},
     true,
     true},
    {"dbrx smaug-bpe glm4 chatglm-bpe", {kLlama3}},
    {"minicpm5", {kDigits3, kMiniCpm5}, true},
    {"jais-2", {kJais2}},
    {"deepseek-llm",
     {kNewline, kDeepSeekLetters, kDeepSeekPunctuation, kTrailingSpace, kDeepSeekCjk, kDigitRun}},
    {"deepseek-coder", {kNewline, kSpaceWord, kSpacePunctuation, kDeepSeekCjk, kDigit}},
    {"deepseek-v3 hunyuan-dense joyai-llm hy_v4", {kDigits3, kDeepSeek3Cjk, kDeepSeek3}},
    {"spark2_5", {kDigits3, kDeepSeek3Cjk, kSpark25, kDigit}},
    {"youtu", {kYoutuScripts, kYoutu}, true},
    {"falcon", {kFalconPunctuation, kGpt2, kThreeDigits}},
    {"starcoder refact command-r smollm codeshell exaone minerva-7b mellum2", {kDigit, kGpt2}},
    {"gpt-2 phi-2 jina-es jina-de gigachat jina-v2-es jina-v2-de a.x-4.0 mellum modern-bert mpt "
     "olmo "
     "jais trillion granite-docling exaone4 jina-v1-en jina-v2-code roberta-bpe",
     {kGpt2}},
    {"qwen2 deepseek-r1-qwen kormo f2llmv2 stablelm2 hunyuan solar-open megrez grok-2", {kQwen2}},
    {"qwen35", {kQwen35}},
    {"poro-chat bloom gpt3-finnish", {kBloom}},
    {"viking", {kBloom, kDigit}},
    {"tekken", {kTekken}, true, true},
    {"chameleon",
     {kChameleonSentinel, kChameleonImage, kChameleonSpace, kDigit, kChameleonPunctuation, kGpt2},
     false,
     true},
    {"gpt-4o llama4 kanana2 talkie minimax-m2", {kGpt4o}},
    {"granite-embed-multi-97m", {kGraniteMulti}, true},
    {"tiny_aya cohere2moe", {kTinyAyaDigits, kTinyAya}},
    {"kimi-k2", {kKimi}},
    {"superbpe", {kDigitRun, kThousands}},
    {"bailingmoe bailingmoe2 llada-moe", {kBailing}},
    {"seed-coder", {kSeedCoder}},
    {"ufakzeka", {kUfakzeka}},
    {"afmoe", {kAfmoeDigits, kAfmoeScripts, kDeepSeek3}},
    {"laguna", {kLines, kQwen2}},
    {"exaone-moe", {kExaoneMoe}},
    {"gemma4 granite-embed-multi-311m", {kLines}, false, true, false},
    {"sarvam-moe", {kLines}, false, false, false},
    {"whitespace", {kNonSpace}, false, false, false},
};

bool lists(std::string_view names, std::string_view name) {
  while (!names.empty()) {
    const size_t end = names.find(' ');
    if (names.substr(0, end) == name) return true;
    if (end == std::string_view::npos) break;
    names.remove_prefix(end + 1);
  }
  return false;
}

}  // namespace

GgufPre gguf_pre(std::string_view name) {
  if (name.empty()) name = "default";
  for (const Entry& entry : kEntries) {
    if (!lists(entry.names, name)) continue;
    GgufPre pre{{}, entry.ignore_merges, entry.add_bos, entry.byte_level};
    std::copy_if(entry.patterns.begin(), entry.patterns.end(), std::back_inserter(pre.patterns),
                 [](std::string_view p) { return !p.empty(); });
    return pre;
  }
  throw Error(
      Code::Unsupported,
      fmt::format("the GGUF file's pre-tokenizer \"{}\" (tokenizer.ggml.pre) is not known; a "
                  "tokenizer.json beside it can take its place",
                  name));
}

}  // namespace mlxcel::text
