#pragma once

#include <cstddef>
#include <tuple>
#include <utility>

namespace giro::flip {

// Calls its stages one after the other, each with the result of the one before:
//
//   auto process = giro::flip::serial(std::move(eval_loop), giro::flip::SummaryLogger(),
//                                     giro::flip::SummaryWriter(dir));
//   for (const auto& checkpoint : train_loop) process(checkpoint);
//
// A stage is anything that can be called with a checkpoint or summary and returns one. A stage with kRunsLast = true,
// such as a CheckpointFileWriter, is called after the stages that follow it, because a training resumed from its save
// does not run them for that checkpoint.
template <class... Stages>
class Serial {
 public:
  explicit Serial(Stages... stages) : stages_(std::move(stages)...) {}

  template <class C>
  auto operator()(C checkpoint) {
    return run<0>(std::move(checkpoint));
  }

 private:
  template <std::size_t kStage, class C>
  auto run(C checkpoint) {
    if constexpr (kStage == sizeof...(Stages)) {
      return checkpoint;
    } else {
      auto& stage = std::get<kStage>(stages_);
      if constexpr (requires { stage.kRunsLast; }) {
        return stage(run<kStage + 1>(std::move(checkpoint)));
      } else {
        return run<kStage + 1>(stage(std::move(checkpoint)));
      }
    }
  }

  std::tuple<Stages...> stages_;
};

template <class... Stages>
Serial<Stages...> serial(Stages... stages) {
  return Serial<Stages...>(std::move(stages)...);
}

}  // namespace giro::flip
