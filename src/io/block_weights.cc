// How checkpoints store matrices in block floating point, recognised by the tensors they come in:
//
//   MLX                 weight u32, scales u8 (E8M0, of nvfp4 E4M3), no biases
//   gpt-oss             blocks u8 [.., cols / 32, 16], block_scales u8 E8M0 (after renaming)
//   fine-grained FP8    weight E4M3, weight_scale_inv for every 128 x 128 block
//   compressed-tensors  weight_packed u8, weight_scale E4M3 or u8 E8M0, weight_global_scale f32
//   ModelOpt NVFP4      weight u8, weight_scale E4M3, weight_scale_2 f32
//   BitNet              weight u8 [rows / 4, cols], weight_scale of one element
#include <fmt/core.h>

#include <cmath>

#include "base/error.h"
#include "io/block_matrix.h"
#include "io/quoted_name.h"
#include "io/weights.h"
#include "io/weights_root.h"

namespace mlxcel::io {
namespace {

using Kind = WeightFormat::Kind;
constexpr const char* kCodes[] = {"weight", "weight_packed", "blocks"};

/// Whether the dimensions before the last `tail` ones hold `rows` matrices' rows.
bool leads_to(const StoredTensor& t, size_t tail, int64_t rows) {
  if (t.dims.size() < tail + 1) return false;
  int64_t product = 1;
  for (size_t i = 0; i + tail < t.dims.size(); ++i) product *= t.dims[i];
  return product == rows;
}

int64_t last(const StoredTensor& t) { return t.dims.empty() ? 0 : t.dims.back(); }

float only_value(const StoredTensor& t, const std::string& name) {
  float value = 0.0F;
  if (t.data.size() != static_cast<size_t>(size_of(t.dtype)) || !is_float(t.dtype)) {
    throw Error(Code::Corrupt, fmt::format("tensor {} must hold one number", quote(name)));
  }
  convert_to_f32(t.dtype, t.data.data(), &value, 1);
  if (!std::isfinite(value) || value == 0.0F) {
    throw Error(Code::Corrupt, fmt::format("tensor {} holds {}", quote(name), value));
  }
  return value;
}

/// The mode of an MLX matrix without biases: as declared, else from its shapes.
Kind mlx_kind(const std::optional<QuantParams>& declared, int64_t bits, int64_t group) {
  if (declared && declared->mode == "mxfp4") return Kind::Mxfp4;
  if (declared && declared->mode == "mxfp8") return Kind::Mxfp8;
  if (declared && declared->mode == "nvfp4") return Kind::Nvfp4;
  if (bits == 8) return Kind::Mxfp8;
  return group == 16 ? Kind::Nvfp4 : Kind::Mxfp4;
}

}  // namespace

bool Weights::has_matrix() const {
  for (const char* codes : kCodes) {
    if (root_->tensors.contains(full(codes))) return true;
  }
  return false;
}

bool Weights::has_dense_matrix() const {
  const auto it = root_->tensors.find(full("weight"));
  if (it == root_->tensors.end() || it->second.blocks != nullptr) return false;
  for (const char* companion : {"scales", "weight_scale", "weight_scale_inv"}) {
    if (root_->tensors.contains(full(companion))) return false;
  }
  return true;
}

std::shared_ptr<const MatrixSource> Weights::stored_in_blocks(int64_t rows, int64_t cols) const {
  const auto has = [&](const char* leaf) { return root_->tensors.contains(full(leaf)); };
  const char* codes_leaf = has("weight_packed") ? "weight_packed"
                           : has("blocks")      ? "blocks"
                                                : "weight";
  const char* scales_leaf = has("blocks")             ? "block_scales"
                            : has("weight_scale_inv") ? "weight_scale_inv"
                            : has("weight_scale")     ? "weight_scale"
                                                      : "scales";
  if (!has(codes_leaf)) return nullptr;
  if (has("qweight")) {
    throw Error(Code::Unsupported,
                fmt::format("{}: matrix {} comes with {}, a quantization format that is not "
                            "supported",
                            root_->source, quote(prefix_), quote(full("qweight"))));
  }
  if (has("biases") || (!has(scales_leaf) && std::string_view(codes_leaf) == kCodes[0]))
    return nullptr;
  if (!has(scales_leaf)) {
    throw Error(Code::Unsupported,
                fmt::format("{}: matrix {} has {} but no {}", root_->source, quote(prefix_),
                            quote(full(codes_leaf)), quote(full(scales_leaf))));
  }
  const StoredTensor& codes = *root_->use(full(codes_leaf));
  const StoredTensor& scales = *root_->use(full(scales_leaf));
  // Scales of activations that the reference quantizes too; products here take them as they are.
  for (const char* ignored : {"input_scale", "input_global_scale"}) (void)root_->use(full(ignored));
  MatrixInfo info{.name = full(codes_leaf), .rows = rows, .cols = cols};
  info.file = codes.file;
  BlockPlanes planes{.codes = codes.data,
                     .scales = scales.data,
                     .scale_type = scales.dtype,
                     .scales_file = scales.file};
  const auto refuse = [&](Code code, const char* why) {
    throw Error(code, fmt::format("{}: matrix {} of {} x {} {}: {} {} {}, {} {} {}", root_->source,
                                  quote(prefix_), rows, cols, why, codes_leaf,
                                  dtype_name(codes.dtype), shape_text(codes.dims), scales_leaf,
                                  dtype_name(scales.dtype), shape_text(scales.dims)));
  };
  return with_context(root_->source, [&]() -> std::shared_ptr<const MatrixSource> {
    bool fits = leads_to(codes, 1, rows) && leads_to(scales, 1, rows);
    const int64_t group = last(scales) > 0 && cols % last(scales) == 0 ? cols / last(scales) : 0;
    if (codes.dtype == DType::U32 && scales.dtype == DType::U8) {
      const int64_t bits = last(codes) > 0 && last(codes) < cols ? last(codes) * 32 / cols : 0;
      const std::string module = codes.stored_name.substr(0, codes.stored_name.rfind('.'));
      planes.kind = mlx_kind(root_->quantization.declared(module), bits, group);
      if (planes.kind == Kind::Nvfp4) planes.scale_type = DType::F8E4M3;
    } else if (std::string_view(codes_leaf) == kCodes[2] && scales.dtype == DType::U8) {
      planes.kind = Kind::Mxfp4;
      fits = leads_to(codes, 2, rows) && leads_to(scales, 1, rows) && last(codes) == 16;
    } else if (codes.dtype == DType::F8E4M3 && has("weight_scale_inv")) {
      if (cols % 128 != 0 || scales.dims.size() != 2) {
        refuse(Code::Unsupported, "is not in blocks of 128 x 128");
      }
      planes.kind = Kind::Fp8Block;
      planes.rows_per_scale = 128;
      fits = leads_to(codes, 1, rows) && last(codes) == cols &&
             scales.dims[0] == (rows + 127) / 128 && scales.dims[1] == (cols + 127) / 128;
    } else if (codes.dtype == DType::U8 && has("weight_scale") && scales.data.size() <= 4) {
      fits = leads_to(codes, 1, rows / 4) && last(codes) == cols;
      const float scale = only_value(scales, full(scales_leaf));
      const bool multiplies = root_->quantization.ternary_scale_multiplies();
      if (fits)
        return ternary_matrix(std::move(info), codes.data, multiplies ? scale : 1.0F / scale);
    } else if (codes.dtype == DType::U8 && has("weight_scale")) {
      planes.kind = scales.dtype == DType::F8E4M3 ? Kind::Nvfp4 : Kind::Mxfp4;
      fits = fits && last(codes) == cols / 2 && group == (planes.kind == Kind::Nvfp4 ? 16 : 32);
      if (has("weight_scale_2")) {
        planes.factor = only_value(*root_->use(full("weight_scale_2")), full("weight_scale_2"));
      } else if (has("weight_global_scale")) {
        const std::string name = full("weight_global_scale");
        planes.factor = 1.0F / only_value(*root_->use(name), name);
      }
    } else if (std::string_view(scales_leaf) == "scales") {
      throw Error(Code::Unsupported, fmt::format("matrix {} has scales but no {}", quote(prefix_),
                                                 quote(full("biases"))));
    } else {
      refuse(Code::Unsupported, "comes in a quantization format that is not supported");
    }
    if (!fits) refuse(Code::Corrupt, "does not fit its tensors");
    return block_matrix(std::move(info), std::move(planes));
  });
}

}  // namespace mlxcel::io
