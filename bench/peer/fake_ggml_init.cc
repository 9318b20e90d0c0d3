// What GgmlLibrary::Open calls, in a library that tells FAKE_GGML_INTERFACE as its interface's version and
// FAKE_GGML_SCORE as how well it suits this CPU.
#include <cstddef>

#include "bench/peer/ggml_api.h"

using ropeline::ggml::Device;
using ropeline::ggml::Registration;

extern "C" {
int ggml_backend_score() { return FAKE_GGML_SCORE; }

Registration* ggml_backend_init() {
  static Registration registration{FAKE_GGML_INTERFACE};
  return &registration;
}

void ggml_log_set(void (*)(int, const char*, void*), void*) {}
const char* ggml_version() { return "0.0.1"; }
const char* ggml_commit() { return "fake"; }
Device* ggml_backend_reg_dev_get(Registration*, size_t) { return nullptr; }
void* ggml_backend_reg_get_proc_address(Registration*, const char*) { return nullptr; }
}
