// libFuzzer target: any bytes as a safetensors file, given to a model as its weights. Only BadInput may come
// of it.
#include <cstddef>
#include <cstdint>
#include <sstream>

#include "fuzz/lay_out.h"
#include "model/bad_input.h"
#include "model/presets.h"
#include "model/safetensors.h"
#include "model/stored_weights.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const ropeline::Llm preset = ropeline::Preset("gpt2", {"fuzz", ""});
  std::istringstream in(std::string(reinterpret_cast<const char*>(data), size));
  try {
    ropeline::SafetensorsFile file = ropeline::ParseSafetensors(in, size, "fuzz.safetensors");
    ropeline::SafetensorsFolder folder;
    folder.file_bytes = file.file_bytes;
    for (ropeline::SafetensorsTensor& tensor : file.tensors) {
      folder.tensor_bytes += tensor.bytes;
      folder.tensors.push_back(std::move(tensor));
    }
    ropeline::Llm llm = preset;
    ropeline::TakeSafetensors(folder, &llm);
    ropeline::LayOut(llm);
  } catch (const ropeline::BadInput&) {
  }
  return 0;
}
