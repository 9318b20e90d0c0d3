// A stand-in for libggml-base and libggml-cpu in one, for tests of what is wrong with a library: every
// function is there, and those that fake_ggml_init.cc does not define end the process.
#include <cstdlib>

#include "bench/peer/ggml_api.h"

extern "C" {
[[noreturn]] void EndTheProcess() { std::abort(); }

#define ROPELINE_GGML_FAKE(required, result, name, parameters) \
  void name() __attribute__((weak, alias("EndTheProcess")));
ROPELINE_GGML_BASE(ROPELINE_GGML_FAKE)
ROPELINE_GGML_CPU(ROPELINE_GGML_FAKE)
#undef ROPELINE_GGML_FAKE
}
