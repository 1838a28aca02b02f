#include <giro/callbacks/jaxloop/step.h>

#include <giro/runtime/device_context.h>
#include <giro/runtime/rng.h>

#include "runtime/files/store_names.h"
#include "runtime/throw_error.h"

namespace giro::jaxloop {

Action::Action(Function function, std::int64_t interval, std::function<void(Archive&)> persist)
    : function_(std::move(function)), interval_(interval), persist_(std::move(persist)) {
  if (interval < 1) throw_invalid("action: the interval is {}, expected at least 1", interval);
  if (!function_) throw_invalid("action: there is no function");
}

Step::Step(nn::Layer model, StepOptions options)
    : model_(std::move(model)),
      options_(std::move(options)),
      recorded_(
          jit([this](TrainState& state, const Batch& batch) { return run(state, batch); }, std::source_location())) {}

Batch Step::begin(TrainState&, const Batch& batch) { return batch; }
Logs Step::end(TrainState&, Logs outputs) { return outputs; }

std::uint64_t Step::prng_key(std::uint64_t i) const {
  const PhiloxBlock block = philox(options_.seed, i, static_cast<std::uint64_t>(RngPurpose::application));
  return std::uint64_t{block.word[0]} << 32 | block.word[1];
}

TrainState Step::initialize_model(const std::vector<std::pair<std::string, Shape>>& features) const {
  BatchSpec spec;
  for (const auto& [name, shape] : features) spec.push_back({name, DType::f32, shape});
  return initialize_model(spec);
}

TrainState Step::initialize_model(const BatchSpec& features) const {
  return TrainState::create(model_, options_.optimizer,
                            {.inputs = features,
                             .seed = options_.seed,
                             .context = options_.device ? *options_.device : discover_devices().best(),
                             .partitioner = options_.partitioner});
}

Restored Step::restore_model(TrainState& state, const std::string& dir, std::optional<std::int64_t> step,
                             FileSystem& files) const {
  return restore(state, step ? detail::path_of(dir, detail::unit_name(*step)) : dir, files);
}

}  // namespace giro::jaxloop
