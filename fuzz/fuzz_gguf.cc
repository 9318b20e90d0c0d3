// libFuzzer target: any bytes as a GGUF file, read into a model and laid out. Only BadInput may come of it.
#include <cstddef>
#include <cstdint>
#include <sstream>

#include "fuzz/lay_out.h"
#include "model/bad_input.h"
#include "model/read_gguf.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::istringstream in(std::string(reinterpret_cast<const char*>(data), size));
  try {
    ropeline::LayOut(ropeline::GgufToLlm(ropeline::ParseGguf(in, size, "fuzz.gguf"), "fuzz.gguf"));
  } catch (const ropeline::BadInput&) {
  }
  return 0;
}
