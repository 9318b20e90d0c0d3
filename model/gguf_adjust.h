// What single architectures do beyond their row in gguf_arch.cc. `model` is filled by then.
#ifndef ROPELINE_MODEL_GGUF_ADJUST_H_
#define ROPELINE_MODEL_GGUF_ADJUST_H_

#include "model/blueprint.h"
#include "model/gguf_keys.h"

namespace ropeline {

void AdjustBaichuan(const GgufKeys& keys, Blueprint* model);
void AdjustAlibiOrLearned(const GgufKeys& keys, Blueprint* model);
void AdjustFalcon(const GgufKeys& keys, Blueprint* model);
void AdjustPhi3(const GgufKeys& keys, Blueprint* model);
void AdjustStarCoder2(const GgufKeys& keys, Blueprint* model);
void AdjustGemma3n(const GgufKeys& keys, Blueprint* model);
void AdjustGemma4(const GgufKeys& keys, Blueprint* model);
void AdjustExaone4(const GgufKeys& keys, Blueprint* model);
void AdjustLlama4(const GgufKeys& keys, Blueprint* model);
void AdjustGranite(const GgufKeys& keys, Blueprint* model);
void AdjustQwenHybrid(const GgufKeys& keys, Blueprint* model);
void AdjustSinks(const GgufKeys& keys, Blueprint* model);
void AdjustT5(const GgufKeys& keys, Blueprint* model);
void AdjustBert(const GgufKeys& keys, Blueprint* model);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_GGUF_ADJUST_H_
