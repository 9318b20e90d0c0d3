// The sections of a comparison for people, each a few sentences and its tables. compare_text.h puts them in
// order.
#ifndef ROPELINE_MODEL_CLI_COMPARE_SECTIONS_H_
#define ROPELINE_MODEL_CLI_COMPARE_SECTIONS_H_

#include <cstdint>
#include <string>

#include "model/compare.h"

namespace ropeline {

// compare_glance.cc
std::string PrefillGlance(const CompareRequest& request, const Comparison& comparison);
std::string DecodeGlance(const CompareRequest& request, const Comparison& comparison);
std::string RejectedText(const CompareRequest& request,
                         const Comparison& comparison);  // "" where every encoding takes the shape
std::string LawsText(const Comparison& comparison);

// compare_rows.cc
std::string RowsText(const CompareRequest& request, const Comparison& comparison);
std::string WaysText(const Comparison& comparison);  // "" where the run has no other ways to pay

// compare_shares.cc
std::string SharesText(const Comparison& comparison, Phase phase);
std::string MovedText(const CompareRequest& request, const Comparison& comparison);
std::string InputsText(const CompareRequest& request, const Machine& machine, const Comparison& comparison);

// "llama-3.2-3b", or "llama-3.2-3b with 16/4 heads of 64" where the shape is not its own.
std::string ModelText(const CompareRequest& request);
// A count of tokens in a column's header: "512", "32k", "1m", "1,000".
std::string ShortCount(uint64_t count);
// A time and what kind it is: "3.28 ms" measured, "≈26.2 ms" worked out, "≥2.46 s" the limit, "0", "unknown".
std::string TimeText(const EncodingShare& share);
std::string ShareText(const EncodingShare& share);
// A row's arguments without cache and threads: "n:512 h:32 d:128".
std::string RowShapeText(const std::string& row);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_CLI_COMPARE_SECTIONS_H_
