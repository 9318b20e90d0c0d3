// Every column of ../shared/configs/truth.tsv, for every config there.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <regex>
#include <sstream>

#include "model/kv_layout.h"
#include "model/read_hf_config.h"

namespace ropeline {
namespace {

using Row = std::map<std::string, std::string>;

std::filesystem::path ConfigsFolder() {
  const char* shared = std::getenv("ROPELINE_SHARED");
  return (shared != nullptr ? std::filesystem::path(shared)
                            : std::filesystem::path(ROPELINE_SOURCE_DIR) / "../shared") /
         "configs";
}

std::vector<std::string> Cells(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream stream(line);
  for (std::string cell; std::getline(stream, cell, '\t');) cells.push_back(cell);
  return cells;
}

std::vector<Row> TruthRows(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  const std::vector<std::string> names = Cells(line);
  std::vector<Row> rows;
  while (std::getline(stream, line)) {
    std::vector<std::string> cells = Cells(line);
    cells.resize(names.size());
    Row row;
    for (size_t i = 0; i < names.size(); ++i) row[names[i]] = cells[i];
    rows.push_back(row);
  }
  return rows;
}

// The figures of a cell: "4 (full) / 8 (window)" is 4 and 8; "-" and "none" are none.
std::vector<double> Figures(const std::string& cell) {
  std::vector<double> figures;
  std::istringstream parts(std::regex_replace(cell, std::regex(" / "), "\n"));
  for (std::string part; std::getline(parts, part);) {
    char* end = nullptr;
    const double figure = std::strtod(part.c_str(), &end);
    if (end != part.c_str()) figures.push_back(figure);
  }
  return figures;
}

// Distinct values over attention layers, those of full layers before those of windows.
std::vector<double> Distinct(const Llm& llm,
                             const std::function<std::optional<double>(const Attention&)>& of) {
  std::vector<double> values;
  for (const bool limited : {false, true}) {
    for (const Layer& layer : llm.layers) {
      if (layer.self.kind == AttentionKind::kNone || layer.self.limited() != limited) continue;
      const auto value = of(layer.self);
      if (value && std::find(values.begin(), values.end(), *value) == values.end()) values.push_back(*value);
    }
  }
  return values;
}

std::vector<double> Rotary(const Llm& llm, const std::function<double(const RopeParameters&)>& of) {
  return Distinct(llm, [&](const Attention& attention) -> std::optional<double> {
    const RopeParameters& rope = attention.position.rope;
    return rope.d_rot > 0 && of(rope) > 0 ? std::optional(of(rope)) : std::nullopt;
  });
}

uint64_t Caching(const Llm& llm, bool limited) {
  return static_cast<uint64_t>(std::count_if(llm.layers.begin(), llm.layers.end(), [&](const Layer& layer) {
    return layer.stack == Stack::kDecoder && layer.self.caches() && layer.self.limited() == limited;
  }));
}

// "llama3 (sliding layers only)" in our words; "none".
std::string Scaling(const Llm& llm) {
  std::string name = "none";
  size_t scaled_full = 0, scaled_window = 0, plain = 0;
  for (const Layer& layer : llm.layers) {
    const RopeParameters& rope = layer.self.position.rope;
    if (rope.d_rot == 0) continue;
    if (rope.type == RopeType::kDefault) {
      ++plain;
      continue;
    }
    name = RopeTypeName(rope.type);
    ++(layer.self.limited() ? scaled_window : scaled_full);
  }
  if (plain == 0 || name == "none") return name;
  return name + (scaled_full == 0 ? " sliding" : scaled_window == 0 ? " full" : " some");
}

std::string ScalingOfTruth(const std::string& cell) {
  std::string name = cell.substr(0, cell.find(' '));
  if (name == "dynamic-ntk") name = "qwen_dynamic";
  if (cell.find("sliding") != std::string::npos) return name + " sliding";
  const bool full = cell.find("full") != std::string::npos || cell.find("global") != std::string::npos;
  return full ? name + " full" : name;
}

std::string PositionName(const Llm& llm) {
  const std::string encoding = llm.MainPosition().encoding;
  return encoding.starts_with("rope_") ? "rope" : encoding.empty() ? "none" : encoding;
}

void CompareShape(const Llm& llm, const Row& row) {
  const bool encoder_only = llm.NumLayers(Stack::kDecoder) == 0;
  const uint64_t n = llm.NumLayers(encoder_only ? Stack::kEncoder : Stack::kDecoder);
  EXPECT_EQ(llm.model_type, row.at("model_type"));
  EXPECT_EQ(n, std::stoull(row.at("n_layers")));
  const uint64_t full = Caching(llm, false), windows = Caching(llm, true);
  EXPECT_EQ(full, std::stoull(row.at("full_layers")));
  EXPECT_EQ(windows, std::stoull(row.at("window_layers")));
  EXPECT_EQ(n - full - windows, std::stoull(row.at("no_kv_layers")));
  const auto of = [&](uint64_t Attention::*field) {
    return Distinct(llm, [&](const Attention& attention) { return static_cast<double>(attention.*field); });
  };
  const auto window = Distinct(llm, [](const Attention& attention) -> std::optional<double> {
    return attention.limited() ? std::optional(static_cast<double>(attention.window)) : std::nullopt;
  });
  EXPECT_EQ(window, Figures(row.at("window")));
  EXPECT_EQ(of(&Attention::n_heads), Figures(row.at("n_heads")));
  EXPECT_EQ(of(&Attention::n_kv_heads), Figures(row.at("n_kv_heads")));
  std::vector<double> widths = of(&Attention::d_head_k);
  if (row.at("head_dim").find("(v)") != std::string::npos) widths.push_back(of(&Attention::d_head_v).front());
  EXPECT_EQ(widths, Figures(row.at("head_dim")));
}

void CompareMemory(const Llm& llm, const Row& row) {
  const KvLayer kv = LayOutKv(llm, kBlockF16, 32768).total;
  EXPECT_EQ(kv.elements_per_token, std::stoull(row.at("kv_elements_per_token")));
  EXPECT_EQ(kv.bytes_per_token, std::stoull(row.at("kv_bytes_per_token_fp16")));
  EXPECT_EQ(kv.bytes_at_context, std::stoull(row.at("kv_cache_bytes_at_32k_fp16")));
  EXPECT_EQ(kv.state_elements, std::stoull(row.at("const_state_elements")));
  // A source of no fixed length is counted per token.
  EXPECT_EQ(LayOutKv(llm, kBlockF16, 1).total.cross_elements, std::stoull(row.at("cross_kv_elements")));
  const bool latent = row.at("mla_expanded_kv_elements") != "-";
  EXPECT_EQ(kv.expanded_elements_per_token, latent ? std::stoull(row.at("mla_expanded_kv_elements")) : 0);
  EXPECT_EQ(llm.ParamsTotal(), std::stoull(row.at("total_params")));
  EXPECT_EQ(llm.ParamsActive(), std::stoull(row.at("active_params")));
}

void ComparePosition(const Llm& llm, const Row& row) {
  const std::string position = row.at("position");
  EXPECT_EQ(PositionName(llm), position.substr(0, position.find(' ')));
  std::smatch counts;
  if (std::regex_match(position, counts, std::regex(R"(rope \((\d+) layers\) / none \((\d+) layers\))"))) {
    const auto rotary = std::count_if(llm.layers.begin(), llm.layers.end(),
                                      [](const Layer& layer) { return !layer.self.position.empty(); });
    EXPECT_EQ(std::to_string(rotary), counts[1]);
  }
  EXPECT_EQ(Rotary(llm, [](const RopeParameters& rope) { return rope.base; }), Figures(row.at("rope_theta")));
  EXPECT_EQ(Rotary(llm, [](const RopeParameters& rope) { return static_cast<double>(rope.d_rot); }),
            Figures(row.at("rope_dim")));
  const std::string encoding = llm.MainPosition().encoding;
  EXPECT_EQ(encoding.starts_with("rope_") ? encoding.substr(5) : "-", row.at("rope_layout"));
  // Where the other layers have no position at all (EXAONE 4), the truth says "only" too.
  const std::string scaling = Scaling(llm), truth = ScalingOfTruth(row.at("rope_scaling"));
  EXPECT_EQ(scaling, scaling.find(' ') == std::string::npos ? truth.substr(0, truth.find(' ')) : truth);
  const auto scaled = [](double RopeParameters::*field, const RopeParameters& rope) {
    const bool has = rope.type != RopeType::kDefault && rope.type != RopeType::kProportional;
    return has ? rope.*field : 0;
  };
  if (row.at("rope_factor") != "computed") {
    EXPECT_EQ(Rotary(llm, [&](const RopeParameters& rope) { return scaled(&RopeParameters::factor, rope); }),
              Figures(row.at("rope_factor")));
  }
  EXPECT_EQ(
      Rotary(llm,
             [&](const RopeParameters& rope) { return scaled(&RopeParameters::original_context, rope); }),
      Figures(row.at("rope_original_max")));
  const std::vector<double> context = Figures(row.at("max_context"));
  EXPECT_EQ(llm.max_context.has_value(), !context.empty());
  if (llm.max_context && !context.empty()) {
    EXPECT_EQ(static_cast<double>(*llm.max_context), context.front());
  }
  EXPECT_EQ(llm.hard_context_limit ? "yes" : "no", row.at("hard_context_limit"));
}

TEST(PublishedConfigsTest, EveryColumnOfTheTruth) {
  const std::filesystem::path folder = ConfigsFolder();
  if (!std::filesystem::exists(folder / "truth.tsv")) {
    GTEST_SKIP() << "no truth.tsv in " << folder << "; set ROPELINE_SHARED to the folder above it";
  }
  const std::vector<Row> rows = TruthRows(folder / "truth.tsv");
  EXPECT_GE(rows.size(), 44u);
  for (const Row& row : rows) {
    SCOPED_TRACE(row.at("name"));
    Llm llm;
    try {
      llm = ReadHfConfig((folder / row.at("name") / "config.json").string());
    } catch (const BadInput& e) {
      ADD_FAILURE() << e.what();
      continue;
    }
    EXPECT_EQ(llm.name, row.at("name"));
    CompareShape(llm, row);
    CompareMemory(llm, row);
    ComparePosition(llm, row);
  }
}

}  // namespace
}  // namespace ropeline
