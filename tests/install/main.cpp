#include <vector>

#include <giro/giro.h>

int main() {
  const giro::Stream stream(giro::Device::cpu());
  const auto memory = giro::Buffer::allocate(stream.device(), 3 * sizeof(float));
  const giro::Tensor x(memory.data(), giro::DType::f32, {3}, stream.device());
  giro::from_host<float>(x, {1, 2, 3}, stream);
  giro::Graph::record(stream, [&] { giro::scale(x, x, 2, stream); }).replay(stream);
  return giro::to_host<float>(x, stream) == std::vector<float>{2, 4, 6} ? 0 : 1;
}
