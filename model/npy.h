// Arrays of numbers in NumPy's .npy format (numpy/lib/format.py, versions 1 to 3).
#ifndef ROPELINE_MODEL_NPY_H_
#define ROPELINE_MODEL_NPY_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ropeline {

struct NpyArray {
  std::vector<uint64_t> shape;  // empty: one number
  std::vector<double> values;   // row by row
};

// f2, f4, f8, and whole numbers of 1 to 8 bytes, of either byte order, in C order. Throws BadInput: not that
// format, another type, Fortran order, more or fewer bytes than the shape says, above 2^28 values.
NpyArray ReadNpy(const std::string& path);
NpyArray ParseNpy(std::string_view bytes, const std::string& file);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_NPY_H_
