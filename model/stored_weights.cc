#include "model/stored_weights.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <map>
#include <string_view>

namespace ropeline {
namespace {

enum class Part { kEmbedding, kOutput, kTable, kExperts, kRest, kBeside };
constexpr size_t kParts = 6;

bool Contains(std::string_view name, std::initializer_list<std::string_view> pieces) {
  return std::any_of(pieces.begin(), pieces.end(),
                     [&](std::string_view piece) { return name.find(piece) != std::string_view::npos; });
}

// A layer that the model does not run: multi-token prediction.
bool BeyondLayers(std::string_view name, size_t n_layers) {
  constexpr std::string_view kLayers = "model.layers.";
  const size_t at = name.find(kLayers);
  if (at == std::string_view::npos) return false;
  name.remove_prefix(at + kLayers.size());
  uint64_t layer = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), layer);
  return error == std::errc() && layer >= n_layers;
}

Part PartOf(std::string_view name, const Llm& llm) {
  if (Contains(name,
               {"vision", "visual.", "audio", "projector", "connector", "patch_embed", "image_newline"}) ||
      name.starts_with("mtp.") || BeyondLayers(name, llm.layers.size())) {
    return Part::kBeside;
  }
  if (Contains(name, {".experts.", ".experts_", ".mlp.experts"})) return Part::kExperts;
  if (Contains(name, {"lm_head", "embed_out", "output_layer"}) || name == "output.weight")
    return Part::kOutput;
  if (Contains(name, {"position_embeddings", "embed_positions", "wpe.", "token_type_embeddings",
                      "relative_attention_bias", "embed_tokens_per_layer"})) {
    return Part::kTable;
  }
  if (Contains(name, {"embed_tokens", "wte.", "word_embeddings", "tok_embeddings", "embed_in.",
                      "embedding.weight"}) ||
      name == "shared.weight" || name.ends_with("embeddings.weight")) {
    return Part::kEmbedding;
  }
  return Part::kRest;
}

Part PartOf(MatrixRole role) {
  switch (role) {
    case MatrixRole::kTokenEmbedding:
      return Part::kEmbedding;
    case MatrixRole::kOutput:
      return Part::kOutput;
    case MatrixRole::kPositionTable:
    case MatrixRole::kTokenTypeTable:
    case MatrixRole::kRelativeBias:
    case MatrixRole::kPerLayerEmbedding:
      return Part::kTable;
    case MatrixRole::kExpertGate:
    case MatrixRole::kExpertUp:
    case MatrixRole::kExpertDown:
      return Part::kExperts;
    default:
      return Part::kRest;
  }
}

// A part's bytes dealt out by elements, so that they add up to the byte.
class Share {
 public:
  void Add(uint64_t bytes) { bytes_ += bytes; }
  void Expect(uint64_t elements) { elements_ += elements; }
  uint64_t bytes() const { return bytes_; }
  uint64_t elements() const { return elements_; }
  void Join(Share* other) {
    bytes_ += other->bytes_;
    elements_ += other->elements_;
    *other = {};
  }
  uint64_t Take(uint64_t elements) {
    const uint64_t before = Upto(taken_);
    taken_ += elements;
    return Upto(taken_) - before;
  }

 private:
  uint64_t Upto(uint64_t elements) const {
    if (elements >= elements_) return bytes_;
    return static_cast<uint64_t>(static_cast<long double>(bytes_) * static_cast<long double>(elements) /
                                 static_cast<long double>(elements_));
  }

  uint64_t bytes_ = 0, elements_ = 0, taken_ = 0;
};

const BlockFormat* FormatOf(const std::string& dtype) {
  if (dtype == "F32") return &kBlockF32;
  if (dtype == "F16") return &kBlockF16;
  return dtype == "BF16" ? &kBlockBf16 : nullptr;
}

std::string Lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

}  // namespace

void TakeSafetensors(const SafetensorsFolder& folder, Llm* llm) {
  if (llm->params_given) return;
  StoredWeights stored;
  stored.tensor_bytes = folder.tensor_bytes;
  stored.file_bytes = folder.file_bytes;
  std::array<Share, kParts> shares;
  const auto share = [&](Part part) -> Share& { return shares[static_cast<size_t>(part)]; };
  std::map<std::string, uint64_t> by_dtype;
  uint64_t elements = 0;
  for (const SafetensorsTensor& tensor : folder.tensors) {
    const Part part = PartOf(tensor.name, *llm);
    share(part).Add(tensor.bytes);
    by_dtype[tensor.dtype] += tensor.bytes;
    const bool again = part == Part::kOutput && llm->tied_embeddings;
    if (part != Part::kBeside && !again) elements += tensor.elements;
  }
  if (folder.tensors.empty()) share(Part::kRest).Add(folder.tensor_bytes);  // an index without its files

  for (const Matrix& matrix : llm->matrices) share(PartOf(matrix.role)).Expect(matrix.Elements());
  for (const Vector& vector : llm->vectors) share(Part::kRest).Expect(vector.elements);
  std::array<bool, kParts> joined{};
  for (const Part part : {Part::kEmbedding, Part::kOutput, Part::kTable, Part::kExperts}) {
    Share& own = share(part);
    // The output matrix of tied embeddings, stored all the same, is not read.
    if (own.elements() == 0 && own.bytes() > 0 && part != Part::kExperts) {
      share(Part::kBeside).Join(&own);
    } else if ((own.elements() == 0) != (own.bytes() == 0)) {  // under names that are not known here
      share(Part::kRest).Join(&own);
      joined[static_cast<size_t>(part)] = true;
    }
  }
  stored.other_bytes = share(Part::kBeside).bytes();

  const BlockFormat* format = by_dtype.size() == 1 ? FormatOf(by_dtype.begin()->first) : nullptr;
  for (Matrix& matrix : llm->matrices) {
    const Part part = PartOf(matrix.role);
    Share& from = joined[static_cast<size_t>(part)] ? share(Part::kRest) : share(part);
    matrix.stored = StoredMatrix{from.Take(matrix.Elements()), format};
  }
  for (Vector& vector : llm->vectors) vector.stored_bytes = share(Part::kRest).Take(vector.elements);

  for (const auto& [dtype, bytes] : by_dtype) stored.bytes_by_format.emplace_back(Lower(dtype), bytes);
  std::sort(stored.bytes_by_format.begin(), stored.bytes_by_format.end(), [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  const bool plain = std::all_of(by_dtype.begin(), by_dtype.end(),
                                 [](const auto& entry) { return FormatOf(entry.first) != nullptr; });
  const auto params = static_cast<double>(llm->ParamsTotal());
  if (!by_dtype.empty() && plain && std::abs(static_cast<double>(elements) - params) > 0.01 * params) {
    llm->warnings.push_back(folder.source + " holds " + std::to_string(elements) +
                            " parameters, the config's shape has " + std::to_string(llm->ParamsTotal()));
  }
  llm->stored = std::move(stored);
}

}  // namespace ropeline
