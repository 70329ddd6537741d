// Dequantized values against gguf-py and mlx (tools/reference/quant_goldens.py), bit for bit. Only
// the sign of a zero may differ: the affine form adds scale * code and -scale * code to +0.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/error.h"
#include "io/checkpoint.h"
#include "io/gguf.h"
#include "io/gguf_blocks.h"
#include "io/matrix_sources.h"
#include "testing/paths.h"
#include "testing/safetensors_writer.h"

namespace mlxcel::io {
namespace {

void expect_same_bits(const std::vector<float>& got, const float* want, const std::string& what) {
  for (size_t i = 0; i < got.size(); ++i) {
    if (got[i] == 0.0F && want[i] == 0.0F) continue;
    ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(want[i]))
        << what << " element " << i << ": " << got[i] << " instead of " << want[i];
  }
}

std::vector<float> read_all(const MatrixSource& m) {
  std::vector<float> out(static_cast<size_t>(m.rows() * m.cols()));
  m.read_f32(0, m.rows(), out.data());
  return out;
}

// The affine planes give the same values as read_f32, whatever rows are asked for.
void expect_planes_agree(const MatrixSource& m) {
  const auto whole = read_all(m);
  const WeightFormat& f = m.format();
  const int64_t groups = m.cols() / f.group;
  for (int64_t begin = 0; begin < m.rows(); ++begin) {
    const int64_t count = m.rows() - begin;
    std::vector<uint8_t> codes(static_cast<size_t>(count * m.cols()));
    std::vector<float> scales(static_cast<size_t>(count * groups)), biases(scales.size());
    m.read_affine(begin, count, codes.data(), scales.data(), biases.data());
    for (size_t i = 0; i < codes.size(); ++i) {
      const size_t g = i / f.group;
      ASSERT_LT(codes[i], 1 << f.bits);
      ASSERT_EQ(scales[g] * static_cast<float>(codes[i]) + biases[g],
                whole[static_cast<size_t>(begin * m.cols()) + i]);
      if (f.symmetric) {
        ASSERT_EQ(biases[g], -scales[g] * static_cast<float>(1 << (f.bits - 1)));
      }
    }
    for (const float s : scales) {
      if (f.scale_type == DType::F16) {
        ASSERT_EQ(f16_to_f32(f32_to_f16(s)), s);
      }
    }
  }
}

// Scales in two levels multiply out to the scales of the planes, sign of zero included.
void expect_levels_agree(const MatrixSource& m) {
  const WeightFormat& f = m.format();
  const auto groups = static_cast<size_t>(m.rows() * (m.cols() / f.group));
  const auto supers = static_cast<size_t>(m.rows() * (m.cols() / kSuperGroup));
  std::vector<uint8_t> codes(static_cast<size_t>(m.rows() * m.cols()));
  std::vector<float> scales(groups), biases(groups);
  m.read_affine(0, m.rows(), codes.data(), scales.data(), biases.data());
  std::vector<uint16_t> super_scales(supers), super_biases(supers);
  std::vector<int8_t> sub_scales(groups), sub_biases(groups);
  m.read_sub_scales(0, m.rows(),
                    {.super_scales = super_scales.data(),
                     .super_biases = f.symmetric ? nullptr : super_biases.data(),
                     .sub_scales = sub_scales.data(),
                     .sub_biases = f.symmetric ? nullptr : sub_biases.data()});
  for (size_t g = 0; g < groups; ++g) {
    const size_t s = g / static_cast<size_t>(kSuperGroup / f.group);
    const float scale = f16_to_f32(super_scales[s]) * static_cast<float>(sub_scales[g]);
    ASSERT_EQ(std::bit_cast<uint32_t>(scale), std::bit_cast<uint32_t>(scales[g])) << g;
    if (f.symmetric) continue;
    const float bias = f16_to_f32(super_biases[s]) * static_cast<float>(sub_biases[g]);
    ASSERT_EQ(std::bit_cast<uint32_t>(bias), std::bit_cast<uint32_t>(biases[g])) << g;
  }
}

class GgmlBlocks : public ::testing::TestWithParam<GgmlType> {};

TEST_P(GgmlBlocks, EqualGgufPy) {
  const auto file = GgufFile::open(mlxcel::testing::data_path("quant/ggml_blocks.gguf"));
  const std::string name(ggml_type_name(GetParam()));
  const GgufTensor* stored = file->tensor(name);
  const GgufTensor* golden = file->tensor(name + ".f32");
  ASSERT_TRUE(stored != nullptr && golden != nullptr);
  const auto m = gguf_matrix(file, *stored);
  const auto g = gguf_matrix(file, *golden);
  ASSERT_EQ(m->rows(), g->rows());
  ASSERT_EQ(m->cols(), g->cols());
  ASSERT_NE(g->dense_rows(0), nullptr);
  expect_same_bits(read_all(*m), static_cast<const float*>(g->dense_rows(0)), name);
  EXPECT_EQ(m->stored_bytes(), static_cast<int64_t>(stored->data.size()));
  if (m->format().kind == WeightFormat::Kind::Affine) expect_planes_agree(*m);
  if (name.ends_with("_K")) {
    EXPECT_GT(m->format().sub_scale_bits, 0);
    expect_levels_agree(*m);
  } else {
    EXPECT_EQ(m->format().sub_scale_bits, 0);
    EXPECT_THROW(m->read_sub_scales(0, 1, {}), Error);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, GgmlBlocks,
                         ::testing::Values(GgmlType::F16, GgmlType::BF16, GgmlType::Q4_0,
                                           GgmlType::Q4_1, GgmlType::Q5_0, GgmlType::Q5_1,
                                           GgmlType::Q8_0, GgmlType::Q2_K, GgmlType::Q3_K,
                                           GgmlType::Q4_K, GgmlType::Q5_K, GgmlType::Q6_K),
                         [](const auto& p) { return std::string(ggml_type_name(p.param)); });

// The golden file as a checkpoint: bits and groups differ from matrix to matrix, the config names
// only one pair.
Checkpoint mlx_checkpoint(const mlxcel::testing::TempDir& dir) {
  dir.write("config.json",
            R"({"model_type": "llama", "quantization": {"group_size": 64, "bits": 4}})");
  std::error_code error;
  std::filesystem::create_symlink(mlxcel::testing::data_path("quant/mlx_affine.safetensors"),
                                  dir.file("model.safetensors"), error);
  EXPECT_FALSE(error) << error.message();
  return open_checkpoint(dir.path());
}

TEST(MlxAffine, EqualsMlxForAllWidthsAndGroups) {
  const mlxcel::testing::TempDir dir;
  const Weights w = mlx_checkpoint(dir).weights({});
  int formats = 0;
  for (const int bits : {1, 2, 3, 4, 5, 6, 8}) {
    for (const int group : {16, 32, 64, 128}) {
      const std::string name = fmt::format("b{}g{}", bits, group);
      const auto m = w.at(name).take_matrix(3, 128);
      EXPECT_EQ(m->format().kind, WeightFormat::Kind::Affine);
      EXPECT_EQ(m->format().bits, bits);
      EXPECT_EQ(m->format().group, group);
      EXPECT_EQ(m->dense_rows(0), nullptr);
      const Tensor golden = w.at(name).take("f32", {3, 128});
      expect_same_bits(read_all(*m), golden.host<float>().data(), name);
      expect_planes_agree(*m);
      const Tensor same = w.at(name).take_f32("weight", {3, 128});
      expect_same_bits(read_all(*m), same.host<float>().data(), name);
      ++formats;
    }
  }
  EXPECT_EQ(formats, 28);
  EXPECT_TRUE(w.unused().empty());
}

TEST(MlxAffine, ThreadsReadRowRanges) {
  const mlxcel::testing::TempDir dir;
  const Weights w = mlx_checkpoint(dir).weights({});
  const auto m = w.at("b5g32").take_matrix(3, 128);
  const auto whole = read_all(*m);
  std::vector<float> parts(whole.size());
  std::vector<std::thread> threads;
  for (int64_t r = 0; r < 3; ++r) {
    threads.emplace_back([&, r] {
      m->read_f32(r, 1, parts.data() + r * 128);
      m->release_rows(r, 1);
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(parts, whole);
}

TEST(UnpackBits, ReadsNoByteBeyondTheStream) {
  // An exact-size heap block, so that AddressSanitizer sees any overrun.
  for (const int bits : {1, 2, 3, 4, 5, 6, 8}) {
    for (const int64_t count : {32, 64, 96, 128, 480}) {
      const auto bytes = static_cast<size_t>(count * bits / 8);
      const auto stream = std::make_unique<std::byte[]>(bytes);
      for (size_t i = 0; i < bytes; ++i) stream[i] = static_cast<std::byte>(i * 37 + 11);
      const auto out = std::make_unique<uint8_t[]>(static_cast<size_t>(count));
      unpack_bits(bits, stream.get(), count, out.get());
      for (int64_t i = 0; i < count; ++i) {
        int want = 0;
        for (int b = 0; b < bits; ++b) {
          const auto at = static_cast<size_t>(i * bits + b);
          want |= (std::to_integer<int>(stream[at / 8] >> (at % 8)) & 1) << b;
        }
        ASSERT_EQ(out[static_cast<size_t>(i)], want) << bits << " bits, code " << i;
      }
    }
  }
}

TEST(GgmlUnpack, ReadsAndWritesNoByteBeyondTheBlocks) {
  for (uint32_t type = 0; type < 64; ++type) {
    const GgmlTraits* traits = ggml_traits(type);
    if (traits == nullptr || !traits->quantized) continue;
    constexpr int64_t kBlocks = 3;
    const auto bytes = static_cast<size_t>(kBlocks * traits->block_bytes);
    const auto elements = static_cast<size_t>(kBlocks * traits->block);
    const size_t groups = elements / traits->format.group;
    const auto in = std::make_unique<std::byte[]>(bytes);
    const auto codes = std::make_unique<uint8_t[]>(elements);
    const auto scales = std::make_unique<float[]>(groups),
               biases = std::make_unique<float[]>(groups);
    traits->unpack(in.get(), kBlocks, codes.get(), scales.get(), biases.get());
    EXPECT_EQ(scales[groups - 1], 0.0F);
  }
}

// Rows 2j + s of a head in the file are rows s * half + j of the matrix, for codes as for values.
TEST(GgufMatrix, PermutationIsUndoneForQuantizedRows) {
  const auto file = GgufFile::open(mlxcel::testing::data_path("quant/ggml_blocks.gguf"));
  const GgufTensor& stored = *file->tensor("Q4_0");  // [3, 96]
  GgufTensor tall = stored;
  tall.dims = {9, 32};
  EXPECT_THROW(gguf_matrix(file, tall, 3), Error);  // three rows a head are no pairs
  tall.dims = {8, 32};
  tall.data = stored.data.first(8 * 18);
  const auto plain = gguf_matrix(file, tall), undone = gguf_matrix(file, tall, 2);
  const auto before = read_all(*plain), after = read_all(*undone);
  constexpr int64_t kFileRow[] = {0, 2, 1, 3, 4, 6, 5, 7};
  for (int64_t r = 0; r < 8; ++r) {
    EXPECT_EQ(std::memcmp(&after[static_cast<size_t>(r * 32)],
                          &before[static_cast<size_t>(kFileRow[r] * 32)], 32 * sizeof(float)),
              0)
        << r;
  }
  expect_planes_agree(*undone);
  for (int64_t r = 0; r < 8; ++r) undone->release_rows(r, 1);
  EXPECT_EQ(read_all(*undone), after);
}

}  // namespace
}  // namespace mlxcel::io
