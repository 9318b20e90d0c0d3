#include "model/engine/spd.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace ropeline {

double InvertSpd(size_t n, std::vector<double>* matrix) {
  std::vector<double>& m = *matrix;
  double log_det = 0;
  for (size_t j = 0; j < n; ++j) {  // lower triangle becomes L
    double pivot = m[j * n + j];
    for (size_t k = 0; k < j; ++k) pivot -= m[j * n + k] * m[j * n + k];
    if (!(pivot > 0)) {
      std::fprintf(stderr, "%s:%d: pivot %g in row %zu of %zu is not above zero\n", __FILE__, __LINE__, pivot,
                   j, n);
      std::abort();
    }
    const double root = std::sqrt(pivot);
    log_det += 2 * std::log(root);
    m[j * n + j] = root;
    for (size_t i = j + 1; i < n; ++i) {
      double sum = m[i * n + j];
      for (size_t k = 0; k < j; ++k) sum -= m[i * n + k] * m[j * n + k];
      m[i * n + j] = sum / root;
    }
  }
  for (size_t j = 0; j < n; ++j) {  // and L its inverse
    m[j * n + j] = 1 / m[j * n + j];
    for (size_t i = j + 1; i < n; ++i) {
      double sum = 0;
      for (size_t k = j; k < i; ++k) sum -= m[i * n + k] * m[k * n + j];
      m[i * n + j] = sum / m[i * n + i];
    }
  }
  std::vector<double> inverse(n * n);
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      double sum = 0;
      for (size_t k = i; k < n; ++k) sum += m[k * n + i] * m[k * n + j];
      inverse[i * n + j] = inverse[j * n + i] = sum;
    }
  }
  m = std::move(inverse);
  return log_det;
}

}  // namespace ropeline
