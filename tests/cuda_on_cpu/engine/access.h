#pragma once

// The kinds of memory access.

#include <cstdint>

#include "tests/cuda_on_cpu/engine/translated.h"

namespace giro::simt {

enum class Kind : std::uint8_t {
  read = kind_read,
  write = kind_write,
  // Strong accesses (volatile, relaxed or atomic; an atomic reads and writes). Device scope:
  device_read = kind_device_read,
  device_write = kind_device_write,
  device_atomic = kind_device_atomic,
  // Block scope (.cta):
  block_read = kind_block_read,
  block_write = kind_block_write,
  block_atomic = kind_block_atomic,
};

inline bool strong(Kind kind) { return kind >= Kind::device_read; }
inline bool block_scope(Kind kind) { return kind >= Kind::block_read; }
inline bool atomic(Kind kind) { return kind == Kind::device_atomic || kind == Kind::block_atomic; }
inline bool reads(Kind kind) {
  return kind == Kind::read || kind == Kind::device_read || kind == Kind::block_read || atomic(kind);
}
inline bool writes(Kind kind) { return !reads(kind) || atomic(kind); }

// The ordering of an access: it acts like a fence of its scope, only for this access.
enum class Sense : std::uint8_t {
  relaxed = sense_relaxed,
  acquire = sense_acquire,
  release = sense_release,
  both = sense_both
};

inline bool acquires(Sense sense) { return sense == Sense::acquire || sense == Sense::both; }
inline bool releases(Sense sense) { return sense == Sense::release || sense == Sense::both; }

}  // namespace giro::simt
