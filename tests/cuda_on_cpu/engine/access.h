#pragma once

// What kinds of access to memory there are.

#include <cstdint>

namespace giro::simt {

enum class Kind : std::uint8_t {
  read,
  write,
  // Strong ones: volatile, relaxed, atomic (reads and writes in one); for all threads of the device,
  device_read,
  device_write,
  device_atomic,
  // or for those of the block only (scope .cta).
  block_read,
  block_write,
  block_atomic,
};

inline bool strong(Kind kind) { return kind >= Kind::device_read; }
inline bool block_scope(Kind kind) { return kind >= Kind::block_read; }
inline bool atomic(Kind kind) { return kind == Kind::device_atomic || kind == Kind::block_atomic; }
inline bool reads(Kind kind) {
  return kind == Kind::read || kind == Kind::device_read || kind == Kind::block_read || atomic(kind);
}
inline bool writes(Kind kind) { return !reads(kind) || atomic(kind); }

// What an access does beside: as a fence of its scope would, for this access alone.
enum class Sense : std::uint8_t { relaxed, acquire, release, both };

inline bool acquires(Sense sense) { return sense == Sense::acquire || sense == Sense::both; }
inline bool releases(Sense sense) { return sense == Sense::release || sense == Sense::both; }

}  // namespace giro::simt
