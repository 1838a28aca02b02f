#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/cpu/chain.h"
#include "kernels/cpu/fold.h"
#include "kernels/cpu/tile_loops.h"
#include "kernels/pointwise/expression.h"

namespace giro::cpu {

constexpr std::int64_t kBlockLength = 4 * kPiece;  // elements of a row whose total is added to the row's
constexpr int kMaxAxes = static_cast<int>(Shape::kMaxRank) + 2;

// An expression as it is run, which depends on shapes, strides and addresses alone.
//
// Elements are numbered in the order of the space, rows in that of the axes that are not reduced. A tile is a range of
// elements (of several whole rows, or within one), or in `columns` one element each of a range of rows: whichever way
// the memory is contiguous. Values of a tile lie side by side in a slot, or where they are read or written.
struct Plan {
  enum class Pattern { elements, rows, columns };

  // The memory of a read or write, or the numbers of places.
  struct Access {
    std::byte* memory = nullptr;  // of the element at offset 0; null for places
    std::size_t size = 8;         // of an element in bytes
    std::int64_t offset = 0;
    std::array<std::int64_t, kMaxAxes> strides{};
    std::array<pointwise::Layout::Bounds, kMaxAxes> bounds{};
    bool is_bounded = false;     // some elements are not there
    bool is_flat = false;        // elements, or of a value of rows its rows, lie side by side in their order
    bool is_periodic = false;    // the same for all ranges that begin where an innermost axis does
    TileLoop convert = nullptr;  // between what is stored and f32
    int value = 0;
    int number = 0;          // among all reads, or writes
    bool is_direct = false;  // writes: computed in place
    bool is_number = false;  // columns: reads of what is the same for all columns
  };

  struct Step {
    enum class Kind { apply, convert, expand, chain };
    Kind kind = Kind::apply;
    std::array<int, 3> in{};
    int inputs = 1;
    int out = 0;
    std::size_t size = 0;    // of an element of `out`
    bool is_number = false;  // columns: of numbers alone, which are the same for all columns
    pointwise::Loop loop = nullptr;
    TileLoop convert = nullptr;
    TileLoop round = nullptr;      // afterwards
    const char* source = nullptr;  // of a function of f32
    std::vector<ChainStep> links;  // of a chain: its steps, whose tiles are values
  };

  struct Reduction {
    Fold fold;
    int operand = 0, between = 0, out = 0;  // `between`: before the conversion
    int number = 0;                         // among all reductions
    bool is_sum_of_f32 = false;
    int lanes = -1;              // a value, if a chain of the pass adds to it
    TileLoop convert = nullptr;  // to the result's dtype
    TileLoop round = nullptr;
  };

  // Runs through the elements of some rows, then through the rows themselves.
  struct Pass {
    std::vector<Access> reads;
    std::vector<Step> steps;
    std::vector<Reduction> reductions;
    std::vector<Access> writes;
    std::vector<Step> row_steps;  // once the reductions are done

    bool has_elements() const { return !reductions.empty() || !writes.empty(); }
  };

  // Where a value lies in a thread's memory.
  struct Slot {
    std::int64_t offset = 0;
    const std::byte* constant = nullptr;
    bool is_of_rows = false;
    std::size_t kept_size = 0;  // of an element, if all of a long row is kept for later passes
  };

  explicit Plan(const pointwise::Expression& expression);

  Pattern pattern = Pattern::elements;
  int rank = 0, kept = 0;  // axes, and those before the reduced ones
  std::array<std::int64_t, kMaxAxes> sizes{};
  std::int64_t rows = 1, length = 1;  // of the space; length: elements of a row
  std::int64_t tile = 0;              // elements of a tile at most
  std::int64_t unit_rows = 0;         // rows that are worked on together
  std::int64_t tiles_of_axis = 0;     // elements: tiles that an innermost axis is cut into, or 0: they span several
  std::int64_t units = 0;             // independent pieces of work
  std::int64_t work = 0;              // of all, in elements of one step
  bool streams = false;               // some results go past the caches
  bool is_split = false;              // there are few rows, and threads share a row
  bool joins_tiles = false;           // nothing is kept of a tile, so that several may be worked on as one

  std::vector<Access> row_reads, row_writes;
  std::vector<Step> first_row_steps;
  std::vector<Pass> passes;
  std::vector<Slot> slots;
  std::vector<int> kept_values;  // whose slots have a kept_size
  int number_of_reads = 0, number_of_reductions = 0;
  // A thread's memory, in bytes: slots and
  std::int64_t scratch_offset = 0;                 // a tile
  std::int64_t totals_offset = 0;                  // of unit_rows for each reduction, twice
  std::int64_t lanes_offset = 0, lanes_bytes = 0;  // columns: of each reduction
  std::int64_t notes_offset = 0;                   // what each read's slot holds
  std::int64_t pointers_offset = 0;                // to each value's tile
  std::size_t memory = 0;                          // altogether
  Chain chain = nullptr;
  std::vector<std::byte> constants;
};

}  // namespace giro::cpu
