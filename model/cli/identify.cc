#include "model/cli/identify.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "model/cli/machine_options.h"
#include "model/cli/rope_text.h"
#include "model/cli/table.h"
#include "model/npy.h"
#include "model/units.h"

namespace ropeline {
namespace {

constexpr int64_t kMostPosition = int64_t{1} << 24;  // distances beyond are not used
constexpr uint64_t kMostKeys = 1 << 20;

const char* const kPositionsExpected = "from:to, from:to:step, numbers separated by commas, or a .npy";

std::vector<int64_t> Numbers(std::string_view text, char separator) {
  std::vector<int64_t> numbers;
  while (true) {
    const size_t end = text.find(separator);
    const std::string_view part = text.substr(0, end);
    int64_t number = 0;
    const auto [rest, error] = std::from_chars(part.data(), part.data() + part.size(), number);
    const bool whole = error == std::errc() && rest == part.data() + part.size();
    if (!whole || number < 0 || number > kMostPosition) {
      throw BadInput(Flag("--positions"), Quoted(part) + " is not a position", kPositionsExpected);
    }
    numbers.push_back(number);
    if (end == std::string_view::npos) return numbers;
    text.remove_prefix(end + 1);
  }
}

std::vector<int64_t> Positions(const std::string& text) {
  if (text.ends_with(".npy")) {
    std::vector<int64_t> positions;
    for (const double value : ReadNpy(text).values) {
      if (!(value >= 0 && value <= static_cast<double>(kMostPosition)) || value != std::floor(value)) {
        throw BadInput({text, ""}, "holds something else than positions", "whole numbers from 0 on");
      }
      positions.push_back(static_cast<int64_t>(value));
    }
    return positions;
  }
  if (text.find(':') == std::string::npos) return Numbers(text, ',');
  const std::vector<int64_t> range = Numbers(text, ':');
  const int64_t step = range.size() == 3 ? range[2] : 1;
  const bool sound = range.size() <= 3 && range[0] < range[1] && step > 0;
  if (!sound || static_cast<uint64_t>((range[1] - range[0]) / step) > kMostKeys) {
    throw BadInput(Flag("--positions"), Quoted(text) + " is no range", kPositionsExpected);
  }
  std::vector<int64_t> positions;
  for (int64_t p = range[0]; p < range[1]; p += step) positions.push_back(p);
  return positions;
}

NpyArray ReadKeys(const std::string& file) {
  NpyArray array = ReadNpy(file);
  const bool sound = array.shape.size() == 2 && array.shape[0] >= 2 && array.shape[0] <= kMostKeys &&
                     array.shape[1] >= 4 && array.shape[1] <= 4096 && array.shape[1] % 2 == 0;
  if (!sound)
    throw BadInput({file, "shape"}, "does not hold keys", "[n, d_rot] of one head, n at least 2, d_rot even");
  if (!std::all_of(array.values.begin(), array.values.end(), [](double x) { return std::isfinite(x); })) {
    throw BadInput({file, ""}, "holds a number that is not finite", "keys");
  }
  return array;
}

void CheckCount(const std::string& file, const NpyArray& array, const std::vector<int64_t>& positions) {
  if (array.shape[0] == positions.size()) return;
  throw BadInput({file, "shape"},
                 fmt::format("has {} keys for {} positions", array.shape[0], positions.size()),
                 "a position for each key");
}

}  // namespace

KeyDump ReadKeyDump(const std::vector<std::string>& files, const std::vector<std::string>& positions) {
  if (files.size() > 2)
    throw BadInput(Flag("--identify"), "is given more than two files", "one dump, or two");
  if (positions.size() != files.size()) {
    throw BadInput(Flag("--positions"),
                   fmt::format("is given {} times for {} files", positions.size(), files.size()),
                   kPositionsExpected);
  }
  KeyDump dump;
  NpyArray keys = ReadKeys(files[0]);
  dump.d_rot = keys.shape[1];
  dump.positions = Positions(positions[0]);
  CheckCount(files[0], keys, dump.positions);
  dump.keys = std::move(keys.values);
  bool told = std::set<int64_t>(dump.positions.begin(), dump.positions.end()).size() > 1;
  if (files.size() == 2) {
    NpyArray shifted = ReadKeys(files[1]);
    dump.shifted_positions = Positions(positions[1]);
    CheckCount(files[1], shifted, dump.shifted_positions);
    if (shifted.shape != keys.shape)
      throw BadInput({files[1], "shape"}, "is not that of " + files[0], "the same tokens");
    dump.shifted = std::move(shifted.values);
    told = false;
    for (size_t t = 0; t < dump.positions.size(); ++t)
      told = told || dump.shifted_positions[t] > dump.positions[t];
  }
  if (!told) {
    throw BadInput(Flag("--positions"), "are all alike",
                   "keys at different positions (of two dumps, the second later)");
  }
  return dump;
}

std::string IdentificationText(const RopeIdentification& identification, bool all_bands) {
  const MeasuredRotation& measured = identification.measured;
  const ScheduleFit& best = identification.fits.front();
  std::string text = fmt::format(
      "{}{}\npairs {}, noise {} of a key, {} of {} bands measured to better than a tenth\n",
      identification.convincing ? "" : "nothing here fits; nearest is ", ScheduleText(best), measured.pairing,
      FormatPercent(measured.noise), identification.usable_bands, measured.bands.size());
  if (!identification.remark.empty()) text += identification.remark + "\n";
  Table fits({{"schedule", Align::kLeft}, {"χ² per band"}, {"criterion"}});
  for (const ScheduleFit& fit : identification.fits) {
    fits.Add({ScheduleText(fit), fmt::format("{:.4g}", fit.chi2 / static_cast<double>(fit.inv_freq.size())),
              fmt::format("{:.6g}", fit.criterion)});
  }
  text += "\n" + fits.Text();
  Table bands({{"band"}, {"θ measured"}, {"±"}, {"θ of the best"}, {"off by"}, {"coherence"}});
  const size_t n = measured.bands.size(), step = all_bands ? 1 : std::max<size_t>(1, (n - 1) / 8);
  for (size_t i = 0; i < n; i += step) {
    const MeasuredBand& band = measured.bands[i];
    bands.Add({std::to_string(i), StepText(band.theta), fmt::format("{:.2g}", band.sigma),
               StepText(best.inv_freq[i]),
               fmt::format("{:.2g} σ", std::abs(band.theta - best.inv_freq[i]) / band.sigma),
               fmt::format("{:.4f}", band.coherence)});
  }
  return text + "\n" + bands.Text();
}

}  // namespace ropeline
