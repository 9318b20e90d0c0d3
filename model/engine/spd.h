// Symmetric positive definite matrices of a few dozen rows.
#ifndef ROPELINE_MODEL_ENGINE_SPD_H_
#define ROPELINE_MODEL_ENGINE_SPD_H_

#include <cstddef>
#include <vector>

namespace ropeline {

// Replaces the n × n matrix, row by row in *matrix, by its inverse and returns the logarithm of its
// determinant. By Cholesky (Golub and Van Loan, section 4.2). Aborts where it is not positive definite.
double InvertSpd(size_t n, std::vector<double>* matrix);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_ENGINE_SPD_H_
