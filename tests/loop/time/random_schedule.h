#pragma once

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include <giro/loop/time/schedule.h>

namespace giro::test {

// Draws random trees of all kinds of schedules.
class RandomSchedule {
 public:
  struct Leaves {
    bool time = false;       // schedules that use the clock
    bool last = false;       // last()
    bool resumable = false;  // only schedules that can continue after a cut: none that count samples from a boundary
    bool counting = false;   // functions that count how often they were called
    bool tokens = false;     // schedules that count tokens where others count samples
  };
  RandomSchedule(unsigned seed, Leaves leaves) : engine_(seed), leaves_(leaves) {}

  int below(int n) { return static_cast<int>(engine_() % static_cast<unsigned>(n)); }

  Schedule schedule(int depth = 3) { return tree(depth, true); }

 private:
  Schedule tree(int depth, bool samples) {
    const bool inner = samples && !leaves_.resumable;
    switch (depth == 0 ? 0 : below(7)) {
      case 1:
        return tree(depth - 1, samples) & tree(depth - 1, samples);
      case 2:
        return tree(depth - 1, samples) | tree(depth - 1, samples);
      case 3:
        return !tree(depth - 1, samples);
      case 4: {
        Period none;
        return after(boundary(inner, none)).then(tree(depth - 1, inner));
      }
      case 5: {
        Period passed;
        std::vector<std::pair<Period, Schedule>> boundaries;
        for (int i = below(3); i >= 0; --i) boundaries.emplace_back(boundary(inner, passed), tree(depth - 1, inner));
        return piecewise(tree(depth - 1, inner), std::move(boundaries));
      }
      default:
        return leaf(samples);
    }
  }

  Schedule leaf(bool samples) {
    switch (below(12)) {
      case 0:
        return always();
      case 1:
        return never();
      case 2:
        if (leaves_.last) return last();
        break;
      case 3:
        if (leaves_.counting) return [n = 2 + below(9), calls = 0](const Elapsed&) mutable { return ++calls % n == 0; };
        return [n = 2 + below(9)](const Elapsed& e) { return e.steps % n == 1; };
      case 4:
        if (samples) return every({.samples = 1 + below(200)});
        break;
      case 5:
        if (leaves_.time) return every({.time = 0.5 * (1 + below(60))});
        break;
      case 6:
        return after(below(300));
      case 7:
        if (samples) return every({.steps = 1 + below(40), .samples = 1 + below(200)});
        break;
      case 8:
        return every_end(1 + below(60));
      case 9:
        if (samples) return every_end({.samples = 1 + below(200)});
        break;
      case 10:
        if (samples && leaves_.tokens) {
          const Period period{.tokens = 1 + below(800)};
          return below(3) == 0 ? every_end(period) : every(period);
        }
        break;
      default:
        break;
    }
    return every(1 + below(120));
  }

  // A boundary above `passed` in the same field; raises `passed` to it.
  Period boundary(bool samples, Period& passed) {
    const auto raise = [](auto& field, auto more) { return field = field ? *field + more + 1 : more; };
    if (samples && below(4) == 0) return at({.samples = raise(passed.samples, std::int64_t{below(2'000)})});
    if (samples && leaves_.tokens && below(4) == 0) {
      return at({.tokens = raise(passed.tokens, std::int64_t{below(6'000)})});
    }
    if (leaves_.time && below(4) == 0) return at({.time = raise(passed.time, 0.25 * below(2'000))});
    return at({.steps = raise(passed.steps, std::int64_t{below(500)})});
  }

  std::mt19937 engine_;
  Leaves leaves_;
};

}  // namespace giro::test
