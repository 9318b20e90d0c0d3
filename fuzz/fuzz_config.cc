// libFuzzer target: any bytes as a config.json or params.json, read into a model and laid out. Only BadInput
// may come of it.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "fuzz/lay_out.h"
#include "model/bad_input.h"
#include "model/config_json.h"
#include "model/read_hf_config.h"
#include "model/read_params_json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const nlohmann::json root = ropeline::ParseConfigJson(text, "fuzz.json", "a config");
    ropeline::LayOut(ropeline::IsParamsJson(root) ? ropeline::ParamsJsonToLlm(root, "fuzz.json", "fuzz")
                                                  : ropeline::HfConfigToLlm(root, "fuzz.json", "fuzz"));
  } catch (const ropeline::BadInput&) {
  }
  return 0;
}
