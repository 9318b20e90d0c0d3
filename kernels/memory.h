// Memory for tensors and tables: huge pages asked for, because small ones cost address translations, and
// collisions in the second-level cache, that have nothing to do with the kernel.
#ifndef ROPELINE_KERNELS_MEMORY_H_
#define ROPELINE_KERNELS_MEMORY_H_

#include <cstddef>

namespace ropeline {

enum class Pages { kHuge, kSmall };  // MADV_HUGEPAGE or MADV_NOHUGEPAGE, where the kernel knows them

// One anonymous mapping, aligned to 2 MiB, zero until written. Throws std::bad_alloc where the system has no
// memory.
class Mapping {
 public:
  Mapping() = default;
  Mapping(size_t bytes, Pages pages);
  ~Mapping();
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;

  void* Data() const { return data_; }
  size_t Bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
  void* base_ = nullptr;
  size_t base_bytes_ = 0;
};

// `elements` floats that a kernel reads beside its tensor, not initialised. They start one cache line into a
// page: a load whose low 12 address bits are those of a store just made waits for it, and tensors start at a
// page; so a table read in step with its tensor meets stores that are a whole page away. From 32 KiB on a
// mapping of its own. Throws std::bad_alloc.
class TableMemory {
 public:
  TableMemory() = default;
  explicit TableMemory(size_t elements);
  // Room for elements of element_bytes each; see Data().
  TableMemory(size_t elements, size_t element_bytes) : TableMemory((elements * element_bytes + 3) / 4) {}
  ~TableMemory();
  TableMemory(TableMemory&& other) noexcept;
  TableMemory& operator=(TableMemory&& other) noexcept;

  float* get() const { return floats_; }
  void* Data() const { return floats_; }
  float& operator[](size_t i) const { return floats_[i]; }

 private:
  Mapping mapping_;       // of a large table
  void* heap_ = nullptr;  // of a small one
  float* floats_ = nullptr;
};

}  // namespace ropeline

#endif  // ROPELINE_KERNELS_MEMORY_H_
