// libFuzzer target: any bytes as a benchmark's output, read into runs. Only BadInput may come of it, and what
// is read must be usable.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "model/bad_input.h"
#include "model/engine/read_engine_run.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    for (const ropeline::EngineRun& run : ropeline::ParseEngineRuns(text, "fuzz.txt")) {
      if (run.rows.empty()) std::abort();
      for (const ropeline::RunRow& row : run.rows) {
        const double seconds = row.SecondsPerToken();
        if (!(std::isfinite(seconds) && seconds > 0 && row.MeanDepth() > 0)) std::abort();
      }
    }
  } catch (const ropeline::BadInput&) {
  }
  return 0;
}
