// A text as terminals and shells leave it, as plain lines.
#ifndef ROPELINE_MODEL_ENGINE_PLAIN_TEXT_H_
#define ROPELINE_MODEL_ENGINE_PLAIN_TEXT_H_

#include <string>
#include <string_view>

#include "model/bad_input.h"

namespace ropeline {

// Without a byte order mark and terminal colours; UTF-16, which Windows PowerShell's `>` writes, becomes one
// byte per character ('?' beyond ASCII). Throws BadInput where the text is empty or binary.
std::string PlainText(std::string_view raw, const Where& where, std::string_view expected);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_ENGINE_PLAIN_TEXT_H_
