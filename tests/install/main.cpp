// Computes on the best device and prints which one, and why it is not a GPU.
#include <cstdio>
#include <vector>

#include <giro/giro.h>

int main() {
  const giro::Discovery discovery = giro::discover_devices();
  const giro::Stream stream(discovery.best());
  const auto memory = giro::Buffer::allocate(stream.device(), 3 * sizeof(float));
  const giro::Tensor x(memory.data(), giro::DType::f32, {3}, stream.device());
  giro::from_host<float>(x, {1, 2, 3}, stream);
  const auto twice = [&] { copy(x, (2 * giro::nn::Var(x, stream)).value(), stream); };
  giro::Graph::record(stream, twice).replay(stream);
  if (giro::to_host<float>(x, stream) != std::vector<float>{2, 4, 6}) return 1;
  try {
    (void)giro::parse_device("abacus", discovery);
    return 1;
  } catch (const giro::Error& error) {
    if (error.code() != giro::ErrorCode::invalid_argument) return 1;
  }
  std::printf("%s %s\n", to_string(stream.device()).c_str(), discovery.no_cuda_reason.c_str());
  return 0;
}
