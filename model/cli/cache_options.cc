#include "model/cli/cache_options.h"

#include <fmt/format.h>

#include "model/units.h"

namespace ropeline {
namespace {

Where Flag(const char* name) { return {"command line", name}; }

// True for `yes`, false for `no`.
bool Choice(const std::string& value, const char* yes, const char* no, const char* flag) {
  if (value == yes) return true;
  if (value == no) return false;
  throw BadInput(Flag(flag), Quoted(value) + " is no choice", fmt::format("{} or {}", yes, no));
}

}  // namespace

void AddCacheOptions(CLI::App& command, CacheOptions* options) {
  command
      .add_option("--kv", options->kv,
                  fmt::format("cache format, or two for K and V as in q8_0/q4_0: {}",
                              fmt::join(KvFormatNames(), ", ")))
      ->type_name("FMT")
      ->capture_default_str();
  command
      .add_option(
          "--pad", options->pad,
          "tokens that an engine rounds the cache up to: 256 in llama.cpp, the block size of a paged cache")
      ->type_name("N")
      ->capture_default_str();
  command
      .add_option("--windows", options->windows,
                  "what an engine sets aside for a window layer: full (all tokens) or kept (the window)")
      ->type_name("CHOICE")
      ->capture_default_str();
  command
      .add_option(
          "--latent", options->latent,
          "what an engine caches of latent attention (MLA): absorbed (one latent row) or expanded (every "
          "head)")
      ->type_name("CHOICE")
      ->capture_default_str();
}

KvFormats FormatsOf(const CacheOptions& options) { return ParseKvFormats(options.kv, Flag("--kv")); }

KvAllocation AllocationOf(const CacheOptions& options) {
  return {.pad_tokens = ParseCount(options.pad, Flag("--pad"), uint64_t{1} << 20),
          .windows_kept_full = Choice(options.windows, "full", "kept", "--windows"),
          .latent_expanded = false};
}

Llm AsKept(const CacheOptions& options, Llm llm) {
  return Choice(options.latent, "expanded", "absorbed", "--latent") ? WithExpandedLatent(std::move(llm))
                                                                    : llm;
}

}  // namespace ropeline
