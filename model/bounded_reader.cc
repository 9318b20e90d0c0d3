#include "model/bounded_reader.h"

#include <algorithm>

namespace ropeline {
namespace {

constexpr uint64_t kBufferBytes = 1 << 16;

}  // namespace

BoundedReader::BoundedReader(std::istream& in, uint64_t size, uint64_t limit)
    : in_(in), size_(size), limit_(limit), buffer_(kBufferBytes) {}

void BoundedReader::Need(uint64_t bytes, const Where& where) const {
  if (bytes > Left()) {
    throw BadInput(where, "is cut off: the file ends at byte " + std::to_string(size_),
                   std::to_string(bytes) + " bytes from byte " + std::to_string(position()) + " on");
  }
  if (position() > limit_ || bytes > limit_ - position()) {
    throw BadInput(where, "lies beyond the first " + std::to_string(limit_ >> 20) + " MiB",
                   "a header smaller than that");
  }
}

// Makes the next `bytes`, at most kBufferBytes, stand in the buffer.
void BoundedReader::Fill(uint64_t bytes, const Where& where) {
  if (filled_ - next_ >= bytes) return;
  std::copy(buffer_.begin() + static_cast<std::ptrdiff_t>(next_),
            buffer_.begin() + static_cast<std::ptrdiff_t>(filled_), buffer_.begin());
  buffer_start_ += next_;
  filled_ -= next_;
  next_ = 0;
  const uint64_t wanted = std::min(kBufferBytes - filled_, size_ - buffer_start_ - filled_);
  in_.read(buffer_.data() + filled_, static_cast<std::streamsize>(wanted));
  filled_ += static_cast<uint64_t>(std::max<std::streamsize>(in_.gcount(), 0));
  if (filled_ < bytes) {
    throw BadInput(where, "cannot be read from byte " + std::to_string(buffer_start_) + " on", "more bytes");
  }
}

uint64_t BoundedReader::ReadUnsigned(int bytes, const Where& where) {
  const auto n = static_cast<uint64_t>(bytes);
  Need(n, where);
  Fill(n, where);
  uint64_t value = 0;
  for (uint64_t i = 0; i < n; ++i) {
    const uint64_t from = big_endian_ ? i : n - 1 - i;
    value = value << 8 | static_cast<unsigned char>(buffer_[next_ + from]);
  }
  next_ += n;
  return value;
}

std::string BoundedReader::ReadText(uint64_t bytes, const Where& where) {
  Need(bytes, where);
  std::string text;
  while (text.size() < bytes) {
    Fill(1, where);
    const uint64_t piece = std::min(bytes - text.size(), filled_ - next_);
    text.append(buffer_.data() + next_, piece);
    next_ += piece;
  }
  return text;
}

void BoundedReader::Skip(uint64_t bytes, const Where& where) {
  Need(bytes, where);
  const uint64_t buffered = std::min(bytes, filled_ - next_);
  next_ += buffered;
  if (bytes == buffered) return;
  buffer_start_ += next_ + bytes - buffered;
  next_ = filled_ = 0;
  in_.seekg(static_cast<std::streamoff>(bytes - buffered), std::ios::cur);
}

}  // namespace ropeline
