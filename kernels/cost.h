// What one call of a kernel must move and compute. Every kernel declares its cost beside its function; the
// same function feeds the benchmark's counters and the model, so that no formula is written twice.
#ifndef ROPELINE_KERNELS_COST_H_
#define ROPELINE_KERNELS_COST_H_

namespace ropeline {

// Bytes are algorithmic: what the formula reads and writes, each tensor once. Write-allocate traffic is not
// counted, neither here nor in the stream rows that set the bandwidth. A multiply and an add are one flop
// each; table look-ups, comparisons and conversions are none.
struct Cost {
  double bytes_read = 0;
  double bytes_written = 0;
  double flops = 0;

  double Bytes() const { return bytes_read + bytes_written; }
};

inline Cost operator+(const Cost& a, const Cost& b) {
  return {a.bytes_read + b.bytes_read, a.bytes_written + b.bytes_written, a.flops + b.flops};
}

inline Cost operator*(const Cost& a, double times) {
  return {a.bytes_read * times, a.bytes_written * times, a.flops * times};
}

}  // namespace ropeline

#endif  // ROPELINE_KERNELS_COST_H_
