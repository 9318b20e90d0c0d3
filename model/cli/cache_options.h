// Flags that say how the cache is stored and what an engine sets aside for it.
#ifndef ROPELINE_MODEL_CLI_CACHE_OPTIONS_H_
#define ROPELINE_MODEL_CLI_CACHE_OPTIONS_H_

#include <CLI/CLI.hpp>
#include <string>

#include "model/kv_layout.h"
#include "model/llm.h"

namespace ropeline {

struct CacheOptions {
  std::string kv = "f16";
  std::string pad = "256";
  std::string windows = "full";
  std::string latent = "absorbed";
};

void AddCacheOptions(CLI::App& command, CacheOptions* options);

// Throw BadInput that names the flag.
KvFormats FormatsOf(const CacheOptions& options);
KvAllocation AllocationOf(const CacheOptions& options);
// The model as the engine keeps it: MLA's keys and values of every head where `latent` says expanded.
Llm AsKept(const CacheOptions& options, Llm llm);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_CLI_CACHE_OPTIONS_H_
