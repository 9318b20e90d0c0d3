#include "model/gguf_weights.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>

namespace ropeline {
namespace {

struct RoleRow {
  std::string_view name;  // between "blk.N." and ".weight"
  MatrixRole role;
};

// llama.cpp's src/llama-arch.cpp, LLM_TENSOR_NAMES. Any other matrix of a block is a projection.
constexpr RoleRow kBlockRoles[] = {
    {"attn_q", MatrixRole::kAttnQ},
    {"attn_k", MatrixRole::kAttnK},
    {"attn_v", MatrixRole::kAttnV},
    {"attn_qkv", MatrixRole::kAttnQkv},
    {"attn_gate", MatrixRole::kAttnGate},
    {"attn_output", MatrixRole::kAttnOutput},
    {"attn_o", MatrixRole::kAttnOutput},
    {"attn_q_a", MatrixRole::kAttnQA},
    {"attn_q_b", MatrixRole::kAttnQB},
    {"attn_kv_a_mqa", MatrixRole::kAttnKvA},
    {"attn_kv_b", MatrixRole::kAttnKvB},
    {"attn_k_b", MatrixRole::kAttnKvB},
    {"attn_v_b", MatrixRole::kAttnKvB},
    {"attn_rel_b", MatrixRole::kRelativeBias},
    {"cross_attn_rel_b", MatrixRole::kRelativeBias},
    {"cross_attn_q", MatrixRole::kCrossQ},
    {"cross_attn_k", MatrixRole::kCrossK},
    {"cross_attn_v", MatrixRole::kCrossV},
    {"cross_attn_o", MatrixRole::kCrossOutput},
    {"ffn_gate", MatrixRole::kFfnGate},
    {"ffn_up", MatrixRole::kFfnUp},
    {"ffn_down", MatrixRole::kFfnDown},
    {"ffn_gate_inp", MatrixRole::kRouter},
    {"ffn_gate_inp_shexp", MatrixRole::kRouter},
    {"ffn_gate_exps", MatrixRole::kExpertGate},
    {"ffn_gate_up_exps", MatrixRole::kExpertUp},
    {"ffn_up_exps", MatrixRole::kExpertUp},
    {"ffn_down_exps", MatrixRole::kExpertDown},
    {"ffn_gate_shexp", MatrixRole::kSharedGate},
    {"ffn_up_shexp", MatrixRole::kSharedUp},
    {"ffn_down_shexp", MatrixRole::kSharedDown},
    {"ssm_in", MatrixRole::kRecurrentIn},
    {"ssm_out", MatrixRole::kRecurrentOut},
    {"ssm_conv1d", MatrixRole::kRecurrentConv},
    {"ssm_conv1d_q", MatrixRole::kRecurrentConv},
    {"ssm_conv1d_k", MatrixRole::kRecurrentConv},
    {"ssm_conv1d_v", MatrixRole::kRecurrentConv},
    {"ssm_x", MatrixRole::kRecurrentParameters},
    {"ssm_dt", MatrixRole::kRecurrentParameters},
    {"ssm_ba", MatrixRole::kRecurrentParameters},
    {"ssm_alpha", MatrixRole::kRecurrentParameters},
    {"ssm_beta", MatrixRole::kRecurrentParameters},
    {"shortconv.in_proj", MatrixRole::kRecurrentIn},
    {"shortconv.conv", MatrixRole::kRecurrentConv},
    {"shortconv.out_proj", MatrixRole::kRecurrentOut},
};

constexpr RoleRow kOtherRoles[] = {
    {"token_embd", MatrixRole::kTokenEmbedding},
    {"output", MatrixRole::kOutput},
    {"position_embd", MatrixRole::kPositionTable},
    {"token_types", MatrixRole::kTokenTypeTable},
    {"per_layer_token_embd", MatrixRole::kPerLayerEmbedding},
    {"cls", MatrixRole::kPooler},
    {"cls.output", MatrixRole::kPooler},
};

template <size_t N>
MatrixRole RoleOf(const RoleRow (&rows)[N], std::string_view name) {
  const auto row =
      std::find_if(std::begin(rows), std::end(rows), [&](const RoleRow& r) { return r.name == name; });
  return row == std::end(rows) ? MatrixRole::kProjection : row->role;
}

bool StartsWith(std::string_view text, std::string_view head) { return text.substr(0, head.size()) == head; }

// Removes `head` where the name starts with it.
bool Take(std::string_view* name, std::string_view head) {
  if (!StartsWith(*name, head)) return false;
  name->remove_prefix(head.size());
  return true;
}

std::optional<uint64_t> TakeNumber(std::string_view* name) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(name->data(), name->data() + name->size(), number);
  if (error != std::errc()) return std::nullopt;
  name->remove_prefix(static_cast<size_t>(end - name->data()));
  return number;
}

// Where a tensor belongs, by its name.
struct Place {
  bool counted = true;      // false: no part of the text model's parameters
  int layer = -1;           // index into llm.layers
  std::string_view name;    // without block and ending
  bool weight = false;      // ends in ".weight"
  bool one_expert = false;  // a tensor for each expert, as Mixtral's first files had them
};

// `n_encoder`: of llm.layers, those of the encoder.
Place PlaceOf(const Llm& llm, uint64_t n_encoder, std::string_view full) {
  Place place;
  place.name = full;
  std::string_view& name = place.name;
  if (StartsWith(name, "v.") || StartsWith(name, "a.") || StartsWith(name, "mm.") ||
      StartsWith(name, "rope_f")) {
    place.counted = false;
    return place;
  }
  const bool encoder = Take(&name, "enc.");
  const bool decoder = !encoder && Take(&name, "dec.");
  if (Take(&name, "blk.")) {
    const auto block = TakeNumber(&name);
    const uint64_t first = decoder ? n_encoder : 0;
    if (!block || !Take(&name, ".") || *block >= llm.layers.size() - first) {
      place.counted = false;
      return place;
    }
    place.layer = static_cast<int>(first + *block);
  }
  constexpr std::string_view kWeight = ".weight";
  if (name.size() >= kWeight.size() && name.substr(name.size() - kWeight.size()) == kWeight) {
    name.remove_suffix(kWeight.size());
    place.weight = true;
  }
  const size_t dot = name.rfind('.');
  if (place.layer >= 0 && dot != std::string_view::npos && StartsWith(name, "ffn_")) {
    std::string_view digits = name.substr(dot + 1);
    if (TakeNumber(&digits) && digits.empty()) {
      name = name.substr(0, dot);
      place.one_expert = true;
    }
  }
  return place;
}

MatrixRole RoleAt(const Place& place) {
  const MatrixRole role = place.layer < 0 ? RoleOf(kOtherRoles, place.name) : RoleOf(kBlockRoles, place.name);
  if (!place.one_expert) return role;
  if (role == MatrixRole::kFfnGate) return MatrixRole::kExpertGate;
  if (role == MatrixRole::kFfnUp) return MatrixRole::kExpertUp;
  return role == MatrixRole::kFfnDown ? MatrixRole::kExpertDown : role;
}

bool IsExpert(MatrixRole role) {
  return role == MatrixRole::kExpertGate || role == MatrixRole::kExpertUp || role == MatrixRole::kExpertDown;
}

class Taker {
 public:
  Taker(const GgufFile& file, Llm* llm)
      : file_(file), llm_(*llm), n_encoder_(llm->NumLayers(Stack::kEncoder)) {
    llm_.matrices.clear();
    llm_.vectors.clear();
  }

  void Run() {
    StoredWeights stored;
    stored.file_bytes = file_.file_bytes;
    std::map<std::string, uint64_t> by_format;
    for (const GgufTensor& tensor : file_.tensors) {
      stored.tensor_bytes += tensor.bytes;
      by_format[tensor.type->name] += tensor.bytes;
      if (!Add(tensor)) stored.other_bytes += tensor.bytes;
    }
    for (Matrix& matrix : llm_.matrices) SetActive(&matrix);
    stored.bytes_by_format.assign(by_format.begin(), by_format.end());
    std::sort(stored.bytes_by_format.begin(), stored.bytes_by_format.end(), [](const auto& a, const auto& b) {
      return a.second != b.second ? a.second > b.second : a.first < b.first;
    });
    llm_.stored = std::move(stored);
    const auto has = [&](MatrixRole role) {
      return std::any_of(llm_.matrices.begin(), llm_.matrices.end(),
                         [&](const Matrix& matrix) { return matrix.role == role; });
    };
    llm_.tied_embeddings =
        has(MatrixRole::kTokenEmbedding) && !has(MatrixRole::kOutput) && llm_.NumLayers(Stack::kDecoder) > 0;
  }

 private:
  // False where the tensor is none of the text model's parameters.
  bool Add(const GgufTensor& tensor) {
    const Place place = PlaceOf(llm_, n_encoder_, tensor.name);
    if (!place.counted) return false;
    const bool norm = place.name.find("_norm") != std::string_view::npos;
    if (tensor.n_dims < 2 || norm || !place.weight) {
      AddVector(tensor, place);
      return true;
    }
    Matrix matrix{RoleAt(place), tensor.dims[1], tensor.dims[0], tensor.dims[2] * tensor.dims[3],
                  place.layer};
    matrix.stored = StoredMatrix{tensor.bytes, tensor.type};
    if (place.one_expert) {
      const auto key = std::make_tuple(place.layer, matrix.role, matrix.rows, matrix.cols);
      const auto [it, added] = experts_.emplace(key, llm_.matrices.size());
      if (!added) {
        Matrix& all = llm_.matrices[it->second];
        ++all.count;
        all.stored->bytes += tensor.bytes;
        if (all.stored->format != tensor.type) all.stored->format = nullptr;
        return true;
      }
    }
    llm_.matrices.push_back(matrix);
    return true;
  }

  void AddVector(const GgufTensor& tensor, const Place& place) {
    Vector vector{tensor.Elements(), place.layer};
    vector.stored_bytes = tensor.bytes;
    const uint64_t experts =
        place.name.find("_exps") == std::string_view::npos ? 0 : Experts(place.layer).first;
    if (experts > 0 && tensor.n_dims == 2 && tensor.dims[1] == experts) {
      vector.active = tensor.dims[0] * Experts(place.layer).second;
    }
    llm_.vectors.push_back(vector);
  }

  // All of a layer's experts, and those that a token takes.
  std::pair<uint64_t, uint64_t> Experts(int layer) const {
    if (layer < 0) return {0, 0};
    const FeedForward& ffn = llm_.layers[static_cast<size_t>(layer)].ffn;
    return {ffn.n_experts, ffn.n_active};
  }

  void SetActive(Matrix* matrix) const {
    if (!IsExpert(matrix->role)) return;
    const auto [all, active] = Experts(matrix->layer);
    if (matrix->count != all) {
      throw BadInput(file_.metadata.WhereIs("blk." + std::to_string(matrix->layer)),
                     "has tensors of " + std::to_string(matrix->count) + " experts",
                     std::to_string(all) + ", as expert_count says");
    }
    matrix->active = active;
  }

  const GgufFile& file_;
  Llm& llm_;
  const uint64_t n_encoder_;
  std::map<std::tuple<int, MatrixRole, uint64_t, uint64_t>, size_t> experts_;
};

}  // namespace

void TakeTensors(const GgufFile& file, Llm* llm) { Taker(file, llm).Run(); }

}  // namespace ropeline
