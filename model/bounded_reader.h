// Reads a file front to back in small pieces, never beyond a limit, and says where it ended early. For
// headers whose counts and lengths may be lies: nothing is allocated before the bytes for it are known to be
// there.
#ifndef ROPELINE_MODEL_BOUNDED_READER_H_
#define ROPELINE_MODEL_BOUNDED_READER_H_

#include <cstdint>
#include <istream>
#include <string>
#include <vector>

#include "model/bad_input.h"

namespace ropeline {

class BoundedReader {
 public:
  // `in` holds `size` bytes, from its current position on; reading more than `limit` of them is an error.
  BoundedReader(std::istream& in, uint64_t size, uint64_t limit);

  void set_big_endian(bool big_endian) { big_endian_ = big_endian; }
  uint64_t position() const { return buffer_start_ + next_; }
  uint64_t size() const { return size_; }
  uint64_t Left() const { return size_ - position(); }

  // An unsigned integer of 1, 2, 4 or 8 bytes. These throw BadInput at `where` where the file has too few
  // bytes left or the limit is reached.
  uint64_t ReadUnsigned(int bytes, const Where& where);
  std::string ReadText(uint64_t bytes, const Where& where);
  void Skip(uint64_t bytes, const Where& where);

 private:
  void Need(uint64_t bytes, const Where& where) const;
  void Fill(uint64_t bytes, const Where& where);

  std::istream& in_;
  const uint64_t size_;
  const uint64_t limit_;
  bool big_endian_ = false;
  std::vector<char> buffer_;
  uint64_t buffer_start_ = 0;  // position of buffer_[0] in the file
  uint64_t next_ = 0;          // of buffer_
  uint64_t filled_ = 0;        // of buffer_
};

}  // namespace ropeline

#endif  // ROPELINE_MODEL_BOUNDED_READER_H_
