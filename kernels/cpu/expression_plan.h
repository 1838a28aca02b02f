#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cpu/chain.h"
#include "kernels/cpu/fold.h"
#include "kernels/cpu/tile_loops.h"
#include "kernels/expr/analysis.h"

namespace giro::cpu {

inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

constexpr std::int64_t kBlockLength = 4 * kPiece;  // elements of a row per partial total
constexpr std::size_t kMaxAxes = expr::Analysis::kMaxAxes;

// How to run an expression, and any other of the same structure. Knows no addresses: arrays have numbers, the reads
// from 0 on and then the writes.
//
// Elements are numbered in the order of the space, rows in the order of the axes that are not reduced. A tile is a
// range of elements (several whole rows, or part of one) or, in `columns`, one element of each of a range of rows,
// whichever is contiguous in memory. A tile's values are contiguous, in a slot or where they are read or written.
struct Plan {
  enum class Pattern { elements, rows, columns };

  // The memory of a read or write, or the element numbers of a place.
  struct Access : expr::Analysis::Array {
    bool is_bounded = false;     // some elements are out of bounds
    bool is_flat = false;        // elements (rows, for a value of rows) are contiguous and in order
    bool is_periodic = false;    // repeats along all axes but the innermost
    TileLoop convert = nullptr;  // between the stored dtype and f32
    int array = -1;              // -1 for a place
    int value = 0;
    int number = 0;          // index among all reads, or all writes
    bool is_direct = false;  // writes: computed in place
    bool is_number = false;  // columns: a read that is the same for all columns
  };

  struct Step {
    enum class Kind { apply, convert, expand, chain };
    Kind kind = Kind::apply;
    std::array<int, 3> in{};
    int inputs = 1;
    int out = 0;
    std::size_t size = 0;    // of an element of `out`
    bool is_number = false;  // columns: the result is the same for all columns
    expr::Loop loop = nullptr;
    TileLoop convert = nullptr;
    TileLoop round = nullptr;                        // applied afterwards
    const expr::ScalarFunction* function = nullptr;  // of f32
    std::vector<ChainStep> links = {};               // the steps of a chain; their tiles are values

    std::span<const int> operands() const { return std::span(in).first(static_cast<std::size_t>(inputs)); }
    // Whether it reads the stored value.
    bool takes(int value) const {
      const auto by_link = [&](const ChainStep& l) {
        return l.code != kChainStore.code && (l.operand == value || l.condition == value);
      };
      return std::ranges::find(operands(), value) != operands().end() || std::ranges::any_of(links, by_link);
    }
    // A conversion of a value to another dtype.
    static Step conversion(int value, DType from, int out, DType to) {
      return {
          .kind = Kind::convert, .in = {value}, .out = out, .size = size_of(to), .convert = cpu::conversion(from, to)};
    }
  };

  struct Reduction {
    Fold fold;
    int operand = 0, between = 0, out = 0;  // `between`: the result before conversion
    int number = 0;                         // index among all reductions
    int index = 0;                          // among those of its pass
    bool is_sum_of_f32 = false;
    int lanes = -1;              // the value to which a chain of the pass adds, or -1
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

  // A value's place in a thread's memory.
  struct Slot {
    std::int64_t offset = 0;
    const std::byte* constant = nullptr;
    bool is_of_rows = false;
    std::size_t kept_size = 0;  // of an element, if a whole long row is kept for later passes; else 0
  };

  // What a plan depends on.
  struct Key {
    explicit Key(const expr::Expression& expression);
    bool operator==(const Key&) const = default;

    std::vector<std::int64_t> structure;
    std::vector<bool> overlaps;  // for each write, whether it shares memory with each read
    int threads;                 // 0 if nothing is reduced
    expr::InstructionSet instructions = expr::instruction_set();
  };

  Plan(const expr::Expression& expression, const Key& key);

  Pattern pattern = Pattern::elements;
  int rank = 0, kept = 0;  // the number of axes, and of those before the reduced ones
  std::array<std::int64_t, kMaxAxes> sizes{};
  std::int64_t rows = 1, length = 1;  // length: elements of a row
  std::int64_t tile = 0;              // most elements in a tile
  std::int64_t unit_rows = 0;         // rows processed together
  std::int64_t tiles_of_axis = 0;     // not in `rows`: tiles per innermost kept axis; 0 if a tile spans several
  std::int64_t units = 0;             // independent pieces of work
  std::int64_t work = 0;              // total cost, in elements times steps
  bool streams = false;               // some results bypass the caches
  bool is_split = false;              // few rows: threads share a row
  bool joins_tiles = false;           // tiles need no slots, so several may run as one

  std::vector<Access> row_reads, row_writes;
  std::vector<Step> first_row_steps;
  std::vector<Pass> passes;
  std::vector<Slot> slots;
  std::vector<int> kept_values;  // whose slots have a kept_size
  int number_of_reads = 0, number_of_reductions = 0;
  // A thread's memory, in bytes: the slots, then
  std::int64_t scratch_offset = 0;                 // a tile
  std::int64_t totals_offset = 0;                  // unit_rows for each reduction, twice
  std::int64_t lanes_offset = 0, lanes_bytes = 0;  // columns: for each reduction
  std::int64_t notes_offset = 0;                   // what each read's slot holds
  std::int64_t pointers_offset = 0;                // to each value's tile
  std::size_t memory = 0;                          // total
  Chain chain = nullptr;
  std::vector<std::byte> constants;
};

}  // namespace giro::cpu
