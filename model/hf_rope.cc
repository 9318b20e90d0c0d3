#include "model/hf_rope.h"

#include <cmath>

#include "model/units.h"

namespace ropeline {
namespace {

constexpr double kMostTheta = 1e15;

// The object that holds this layer type's schedule: rope_parameters before rope_scaling, the type's own part
// before the whole.
std::optional<JsonView> ScheduleObject(const HfConfig& config, std::string_view layer_type) {
  for (const char* name : {"rope_parameters", "rope_scaling"}) {
    const auto object = config.text().Find(name);
    if (!object || !object->is_object()) continue;
    const auto own = object->Has(layer_type) ? object->Find(layer_type) : std::nullopt;
    if (own && own->is_object()) return own;
    if (object->Has("full_attention") && !object->Has("rope_type")) {
      const auto full = object->Find("full_attention");
      if (full && full->is_object()) return full;
    }
    return object;
  }
  return std::nullopt;
}

std::vector<double> Factors(const JsonView& object, std::string_view key, size_t n) {
  std::vector<double> factors;
  const auto found = object.Find(key);
  if (!found)
    throw BadInput({object.where().file, object.where().key + "." + std::string(key)}, "is missing",
                   "a list of divisors");
  for (const JsonView& item : found->Items()) {
    factors.push_back(item.Number());
    if (!(factors.back() > 0)) throw BadInput(item.where(), "is 0", "a divisor above 0");
  }
  if (factors.size() != n) {
    throw BadInput(found->where(), "has " + std::to_string(factors.size()) + " entries",
                   "one for each of " + std::to_string(n) + " rotated pairs");
  }
  return factors;
}

double Theta(const HfConfig& config, const std::optional<JsonView>& schedule, const RopeDefaults& defaults) {
  std::optional<JsonView> found;
  if (schedule) found = schedule->Find("rope_theta");
  if (!found) found = config.Find(kHfTheta);
  if (!found) {
    config.NoteFilled("rope_theta", FormatCount(static_cast<uint64_t>(defaults.theta)));
    return defaults.theta;
  }
  const double theta = found->Number();
  if (!(theta >= 1) || theta > kMostTheta)
    throw BadInput(found->where(), "is no base", "a number from 1 to 1e15");
  return theta;
}

uint64_t RotatedDims(const HfConfig& config, const std::optional<JsonView>& schedule,
                     const RopeDefaults& defaults, uint64_t d_head) {
  if (const auto dims = config.FindCount(kHfRotaryDim); dims && *dims > 0) return *dims;
  std::optional<JsonView> share;
  if (schedule) share = schedule->Find("partial_rotary_factor");
  if (!share) share = config.Find(kHfRotaryShare);
  const double value = share ? share->Number() : defaults.rotary_share;
  if (value > 1) throw BadInput(share->where(), "is above 1", "a share of the head");
  return static_cast<uint64_t>(static_cast<double>(d_head) * value);
}

void ReadScaling(const HfConfig& config, const JsonView& object, RopeParameters* rope) {
  const auto number = [&](const char* key) { return object.FindNumber(key); };
  if (const auto factor = number("factor")) {
    if (!(*factor > 0)) throw BadInput(object.At("factor").where(), "is 0", "a factor above 0");
    rope->factor = *factor;
    rope->factor_given = true;
  }
  if (const auto original = number("original_max_position_embeddings")) {
    rope->original_context = *original;
  } else if (const auto top = config.FindCount(kHfOriginalContext)) {
    rope->original_context = static_cast<double>(*top);
  }
  if (const auto factor = number("attention_factor")) rope->attention_factor = factor;
  if (const auto beta = number("beta_fast")) rope->beta_fast = beta;
  if (const auto beta = number("beta_slow")) rope->beta_slow = beta;
  if (const auto mscale = number("mscale")) rope->mscale = mscale;
  if (const auto mscale = number("mscale_all_dim")) rope->mscale_all_dim = mscale;
  if (const auto truncate = object.FindBool("truncate")) rope->truncate = *truncate;
  if (const auto factor = number("low_freq_factor")) rope->low_freq_factor = *factor;
  if (const auto factor = number("high_freq_factor")) rope->high_freq_factor = *factor;
  if (const auto mscale = number("short_mscale")) rope->short_mscale = mscale;
  if (const auto mscale = number("long_mscale")) rope->long_mscale = mscale;
}

// What the schedule takes from elsewhere where its object does not say.
void Complete(const JsonView& object, RopeParameters* rope) {
  switch (rope->type) {
    case RopeType::kLongrope:
      rope->short_factor = Factors(object, "short_factor", rope->d_rot / 2);
      rope->long_factor = Factors(object, "long_factor", rope->d_rot / 2);
      if (rope->original_context == 0) rope->original_context = rope->max_context;
      if (!rope->factor_given && rope->original_context > 0) {
        rope->factor = rope->max_context / rope->original_context;
      }
      break;
    case RopeType::kLinear:  // the file's length is the extended one
      if (rope->original_context == 0) rope->original_context = rope->max_context / rope->factor;
      break;
    case RopeType::kDynamic:
      if (rope->original_context == 0) rope->original_context = rope->max_context;
      break;
    case RopeType::kYarn:
      if (rope->original_context == 0) rope->original_context = rope->max_context;
      if (!rope->factor_given && rope->original_context > 0) {
        rope->factor = rope->max_context / rope->original_context;
      }
      break;
    default:
      break;
  }
}

}  // namespace

Position ReadRope(const HfConfig& config, const RopeDefaults& defaults, std::string_view layer_type,
                  uint64_t d_head, std::optional<uint64_t> max_context, std::string* warning) {
  const auto schedule = ScheduleObject(config, layer_type);
  Position position = RotaryPosition(defaults.encoding, Theta(config, schedule, defaults), d_head,
                                     RotatedDims(config, schedule, defaults, d_head));
  RopeParameters& rope = position.rope;
  rope.max_context = max_context ? static_cast<double>(*max_context) : 0;
  if (rope.d_rot == 0) return {};
  if (!schedule) return position;
  auto name = schedule->FindString("rope_type");
  if (!name) name = schedule->FindString("type");
  if (!name || *name == "default" || *name == "mrope") return position;
  const auto type = FindRopeType(*name);
  if (!type) {
    *warning = "rope type " + Quoted(*name) + " is not known: its frequencies are taken as unscaled";
    return position;
  }
  rope.type = *type;
  if (const auto alpha = schedule->FindNumber("alpha"); alpha && *alpha > 0 && *type == RopeType::kDynamic) {
    rope.type = RopeType::kNtk;  // Hunyuan: a base for good, whatever the length
    rope.factor = *alpha;
    rope.factor_given = true;
    return position;
  }
  if (*type == RopeType::kProportional) {  // exponents over the whole head; only a share of the pairs turns
    return position;
  }
  ReadScaling(config, *schedule, &rope);
  Complete(*schedule, &rope);
  return position;
}

bool HasRopeByLayerType(const HfConfig& config) {
  for (const char* name : {"rope_parameters", "rope_scaling"}) {
    const auto object = config.text().Find(name);
    if (object && (object->Has("full_attention") || object->Has("sliding_attention"))) return true;
  }
  return false;
}

Position PlainRope(const Position& position, double theta) {
  Position plain =
      RotaryPosition(position.encoding.c_str(), theta, position.rope.d_head, position.rope.d_rot);
  plain.rope.max_context = position.rope.max_context;
  return plain;
}

}  // namespace ropeline
