// The law that an encoding's measured rows follow. An input add and a rotation cost a + b·N·d: a start and so
// much for each element. A score bias costs c·h·N². Fitted by least squares of the relative errors, so that a
// microsecond counts as much in a call of ten as a second in one of ten million.
#ifndef ROPELINE_MODEL_LAW_H_
#define ROPELINE_MODEL_LAW_H_

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/measured_encoding.h"

namespace ropeline {

struct LawPoint {
  double size = 0;  // elements
  double ns = 0;    // above zero
};

struct Law {
  double a_ns = 0;          // 0 for a proportional law
  double per_size_ns = 0;   // b or c
  double residual_rms = 0;  // of the relative errors (law − measured) ÷ measured
  size_t worst = 0;         // the point whose relative error is largest, and that error
  double worst_error = 0;

  double At(double size) const { return a_ns + per_size_ns * size; }
};

// t = a + b·size; nothing with fewer than three distinct sizes.
std::optional<Law> FitLine(std::span<const LawPoint> points);
// t = c·size; nothing with fewer than two distinct sizes.
std::optional<Law> FitProportion(std::span<const LawPoint> points);

// What the law of the row's placement counts: n·d_model; n·(heads of Q and K)·d_rot; n_heads·n·n_k, all of
// the score matrix although a causal call touches half of it.
double LawSize(const MeasuredEncoding& row);

// An encoding's law in one kind of memory. Cold rows come from main memory and share a slope. Hot rows come
// from whichever cache holds them, each with a slope of its own, so that the residual tells how far apart
// these are.
struct EncodingLaw {
  const Encoding* encoding = nullptr;
  bool cold = false;
  size_t rows = 0;  // that the fit used: plain, untainted and, for a score bias, of the causality asked for
  size_t n_min = 0, n_max = 0;
  std::optional<Law> law{};  // nothing: too few rows
  std::string worst_row{};   // "" without a law

  bool Proportional() const { return encoding->placement == Placement::kScoreBias; }
};

// One for each encoding and kind of memory that has rows and work to do, in the order of the rows.
std::vector<EncodingLaw> FitLaws(const std::vector<MeasuredEncoding>& rows, bool causal);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_LAW_H_
