// Memory for timed loops: aligned to 2 MiB, huge pages asked for, touched first by the thread that uses it.
#ifndef ROPELINE_BENCH_BUFFER_H_
#define ROPELINE_BENCH_BUFFER_H_

#include <cstddef>

#include "kernels/dtype.h"
#include "kernels/memory.h"

namespace ropeline {

// The memory of one benchmark thread, kept from row to row so that pages are faulted in once. Each row starts
// with Reset and then takes what it needs; pieces start 64-byte aligned and at different offsets within a
// page, because streams that share their low 12 address bits collide.
class Arena {
 public:
  explicit Arena(Pages pages) : pages_(pages) {}
  // Makes room for `bytes` in all (grows only); forgets the pieces taken before. The caller must run on the
  // thread that will use the memory: new pages are touched here. Elements are of `dtype`; where an earlier
  // row left another one's, they are filled anew, because one dtype's numbers are another's NaNs.
  void Reset(size_t bytes, Dtype dtype = Dtype::kF32);
  // `elements` of them, each set to 0.5 unless `keep` (then whatever an earlier row of that dtype left).
  void* Elements(size_t elements, bool keep = false);
  float* Floats(size_t elements, bool keep = false);  // of an arena of f32
  // For a row that leaves elements of several dtypes: the next Reset fills them anew.
  void Spoil() { filled_ = 0; }
  // Room that so many elements take, for the sum given to Reset.
  static size_t Room(size_t elements, Dtype dtype = Dtype::kF32);

 private:
  Pages pages_;
  Mapping mapping_;
  Dtype dtype_ = Dtype::kF32;
  size_t filled_ = 0;  // bytes from the start on that hold elements of dtype_
  size_t used_ = 0;
  size_t pieces_ = 0;
};

// The arena of benchmark thread `thread` (0 … 1023).
Arena& ThreadArena(int thread, Pages pages = Pages::kHuge);

}  // namespace ropeline

#endif  // ROPELINE_BENCH_BUFFER_H_
