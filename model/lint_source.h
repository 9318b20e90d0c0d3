// What `ropeline lint` is given: a model's files opened twice, as the reader of whole models sees them and
// key by key. A file whose keys the reader refuses is what a linter is for, so that it is no bad input here.
#ifndef ROPELINE_MODEL_LINT_SOURCE_H_
#define ROPELINE_MODEL_LINT_SOURCE_H_

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "model/bad_input.h"
#include "model/lint.h"

namespace ropeline {

// A preset, a config.json or params.json, a folder that holds one, or a .gguf. Throws BadInput for what is
// none of these, or is damaged.
LintSource OpenLintSource(const std::string& what, const Where& where);

// The same of a config.json's value; `name` is for messages.
LintSource LintSourceOf(const nlohmann::json& root, const std::string& name);

// "key=value" of --runtime: a rotary parameter (rope_settings.h), or pairing=half|interleaved (layout),
// reader=v4|v5, engine=hf|ggml (or transformers, vllm, llama.cpp, ollama), context=N (n_ctx, max_model_len),
// prompt=N. Throws BadInput.
LintRuntime ParseLintRuntime(const std::vector<std::string>& settings, const Where& where);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_LINT_SOURCE_H_
