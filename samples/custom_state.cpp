// giro's loop around a state of your own, without tensors: it estimates pi by throwing darts at a square and counting
// those that hit the circle in it. The state may be any type, the dataset any C++20 range.

#include <giro/giro.h>

#include <cmath>
#include <cstdio>
#include <random>
#include <ranges>

namespace {

struct Darts {
  std::int64_t thrown = 0, hits = 0;

  double pi() const { return 4.0 * static_cast<double>(hits) / static_cast<double>(thrown); }
  double standard_error() const { return std::sqrt(pi() * (4 - pi()) / static_cast<double>(thrown)); }
};

// Here a batch is a seed, which determines the darts of a step.
void throw_darts(Darts& darts, const int& seed) {
  std::mt19937_64 engine(static_cast<std::uint64_t>(seed));
  std::uniform_real_distribution<double> coordinate(-1, 1);
  for (int i = 0; i < 1'000; ++i) {
    const double x = coordinate(engine), y = coordinate(engine);
    darts.thrown += 1;
    darts.hits += x * x + y * y < 1;
  }
}

giro::Logs estimate(const Darts& darts) {
  return giro::logs().add_stateful_metric("pi", darts.pi()).add_stateful_metric("error", darts.standard_error());
}

// Takes the LoopState, so it can end the loop.
void stop_when_exact(giro::LoopState<Darts, int>& loop) { loop.stop_iteration = loop.state.standard_error() < 2e-3; }

}  // namespace

int main() {
  auto [darts, history, elapsed] = giro::loop(Darts{}, std::views::iota(0),
      {
          {giro::every(1), throw_darts},
          {giro::every(10) | giro::last(), estimate},
          {giro::every(10) | giro::last(), giro::keras_bar({.total = 5'000})},
          {giro::after(100).every(10), stop_when_exact},
      },
      {.stop = giro::at(5'000)});

  const auto [steps, pi] = history.collect("steps", "pi");
  std::printf("pi is %.4f after %g steps, and %.4f +- %.4f after %lld\n", pi.front(), steps.front() + 1, darts.pi(),
      darts.standard_error(), static_cast<long long>(elapsed.steps));
  return std::abs(darts.pi() - M_PI) < 5 * darts.standard_error() ? 0 : 1;
}
