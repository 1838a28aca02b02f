#pragma once

// Classifiers trained by plain loops in double: the reference for the library's losses and gradients.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace giro::test {

using Doubles = std::vector<double>;
using ReferenceParams = std::map<std::string, Doubles>;  // by path: "dense0/kernel"

// Values (n, h, w, c), row-major.
struct ReferenceImages {
  std::int64_t n = 0, h = 0, w = 0, c = 0;
  Doubles values;

  ReferenceImages(std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t c)
      : n(n), h(h), w(w), c(c), values(static_cast<std::size_t>(n * h * w * c)) {}
  std::size_t index(std::int64_t i, std::int64_t y, std::int64_t x, std::int64_t k) const {
    return static_cast<std::size_t>(((i * h + y) * w + x) * c + k);
  }
  double& operator()(std::int64_t i, std::int64_t y, std::int64_t x, std::int64_t k) {
    return values[index(i, y, x, k)];
  }
  double operator()(std::int64_t i, std::int64_t y, std::int64_t x, std::int64_t k) const {
    return values[index(i, y, x, k)];
  }
};

// One layer with the parameters `path`/kernel and `path`/bias, or a pooling layer without parameters.
struct ReferenceLayer {
  enum class Kind { conv, avg_pool, dense } kind;
  std::string path;
  std::int64_t features = 0;
  bool relu = false;
};

class ReferenceClassifier {
 public:
  static ReferenceClassifier linear() { return {{{ReferenceLayer::Kind::dense, "dense0", 10}}}; }
  static ReferenceClassifier cnn() {
    using Kind = ReferenceLayer::Kind;
    return {{{Kind::conv, "conv0", 32, true},
             {Kind::avg_pool, ""},
             {Kind::conv, "conv1", 64, true},
             {Kind::avg_pool, ""},
             {Kind::dense, "dense0", 256, true},
             {Kind::dense, "dense1", 10}}};
  }

  ReferenceParams params;

  // The mean softmax cross-entropy of pixels (n, h, w, 1), scaled by 1/255, against the labels.
  double loss(const ReferenceImages& pixels, const std::vector<std::uint8_t>& labels) const {
    return cross_entropy(forward(pixels).back(), labels, nullptr);
  }

  // Returns the loss and stores its gradient with respect to every parameter in `grads`.
  double loss_and_grads(const ReferenceImages& pixels, const std::vector<std::uint8_t>& labels,
                        ReferenceParams& grads) const {
    const std::vector<ReferenceImages> values = forward(pixels);
    ReferenceImages dy = values.back();
    const double loss = cross_entropy(values.back(), labels, &dy);
    for (std::size_t i = layers_.size(); i-- > 0;) {
      const ReferenceLayer& layer = layers_[i];
      const ReferenceImages &x = values[i], &y = values[i + 1];
      if (layer.relu) {
        for (std::size_t j = 0; j < dy.values.size(); ++j) dy.values[j] *= y.values[j] > 0 ? 1 : 0;
      }
      ReferenceImages dx(x.n, x.h, x.w, x.c);
      switch (layer.kind) {
        case ReferenceLayer::Kind::conv:
          conv_backward(layer, x, dy, dx, grads);
          break;
        case ReferenceLayer::Kind::avg_pool:
          avg_pool_backward(dy, dx);
          break;
        case ReferenceLayer::Kind::dense:
          dense_backward(layer, x, dy, dx, grads);
          break;
      }
      dy = std::move(dx);
    }
    return loss;
  }

  // Makes a step of adamw with b1 = 0.9, b2 = 0.999, eps = 1e-8 and weight decay 1e-4. Returns the loss before it.
  double adamw_step(const ReferenceImages& pixels, const std::vector<std::uint8_t>& labels, double learning_rate) {
    ReferenceParams grads;
    const double loss = loss_and_grads(pixels, labels, grads);
    ++step_;
    for (auto& [path, param] : params) {
      const Doubles& grad = grads.at(path);
      Doubles &mu = mu_[path], &nu = nu_[path];
      mu.resize(param.size());
      nu.resize(param.size());
      for (std::size_t i = 0; i < param.size(); ++i) {
        mu[i] = 0.9 * mu[i] + 0.1 * grad[i];
        nu[i] = 0.999 * nu[i] + 0.001 * grad[i] * grad[i];
        const double mu_hat = mu[i] / (1 - std::pow(0.9, step_)), nu_hat = nu[i] / (1 - std::pow(0.999, step_));
        param[i] -= learning_rate * (mu_hat / (std::sqrt(nu_hat) + 1e-8) + 1e-4 * param[i]);
      }
    }
    return loss;
  }

 private:
  ReferenceClassifier(std::vector<ReferenceLayer> layers) : layers_(std::move(layers)) {}

  const Doubles& kernel(const ReferenceLayer& layer) const { return params.at(layer.path + "/kernel"); }
  const Doubles& bias(const ReferenceLayer& layer) const { return params.at(layer.path + "/bias"); }

  // The scaled input, then each layer's output.
  std::vector<ReferenceImages> forward(const ReferenceImages& pixels) const {
    std::vector<ReferenceImages> values{pixels};
    for (double& value : values.front().values) value /= 255;
    for (const ReferenceLayer& layer : layers_) {
      const ReferenceImages& x = values.back();
      ReferenceImages y = layer.kind == ReferenceLayer::Kind::conv       ? conv(layer, x)
                          : layer.kind == ReferenceLayer::Kind::avg_pool ? avg_pool(x)
                                                                         : dense(layer, x);
      if (layer.relu) {
        for (double& value : y.values) value = std::max(value, 0.0);
      }
      values.push_back(std::move(y));
    }
    return values;
  }

  // Calls f(i, y, x, o, from_y, from_x, kernel index of channel 0) for every tap of a 3x3 kernel (O, 3, 3, C), with a
  // border of one zero.
  template <class F>
  static void for_each_tap(const ReferenceImages& in, const ReferenceImages& out, const F& f) {
    for (std::int64_t i = 0; i < out.n; ++i) {
      for (std::int64_t y = 0; y < out.h; ++y) {
        for (std::int64_t x = 0; x < out.w; ++x) {
          for (std::int64_t o = 0; o < out.c; ++o) {
            for (std::int64_t ky = 0; ky < 3; ++ky) {
              for (std::int64_t kx = 0; kx < 3; ++kx) {
                const std::int64_t from_y = y + ky - 1, from_x = x + kx - 1;
                if (from_y < 0 || from_y >= in.h || from_x < 0 || from_x >= in.w) continue;
                f(i, y, x, o, from_y, from_x, static_cast<std::size_t>(((o * 3 + ky) * 3 + kx) * in.c));
              }
            }
          }
        }
      }
    }
  }

  ReferenceImages conv(const ReferenceLayer& layer, const ReferenceImages& in) const {
    const Doubles &w = kernel(layer), &b = bias(layer);
    ReferenceImages out(in.n, in.h, in.w, layer.features);
    for (std::size_t j = 0; j < out.values.size(); ++j) out.values[j] = b[j % b.size()];
    for_each_tap(in, out, [&](auto i, auto y, auto x, auto o, auto from_y, auto from_x, std::size_t tap) {
      const double* from = &in.values[in.index(i, from_y, from_x, 0)];
      double sum = 0;
      for (std::int64_t c = 0; c < in.c; ++c) sum += from[c] * w[tap + static_cast<std::size_t>(c)];
      out(i, y, x, o) += sum;
    });
    return out;
  }

  void conv_backward(const ReferenceLayer& layer, const ReferenceImages& in, const ReferenceImages& dout,
                     ReferenceImages& din, ReferenceParams& grads) const {
    const Doubles& w = kernel(layer);
    Doubles &dw = grads[layer.path + "/kernel"], &db = grads[layer.path + "/bias"];
    dw.assign(w.size(), 0);
    db.assign(bias(layer).size(), 0);
    for (std::size_t j = 0; j < dout.values.size(); ++j) db[j % db.size()] += dout.values[j];
    for_each_tap(in, dout, [&](auto i, auto y, auto x, auto o, auto from_y, auto from_x, std::size_t tap) {
      const std::size_t from = in.index(i, from_y, from_x, 0);
      const double d = dout(i, y, x, o);
      for (std::size_t c = 0; c < static_cast<std::size_t>(in.c); ++c) {
        dw[tap + c] += d * in.values[from + c];
        din.values[from + c] += d * w[tap + c];
      }
    });
  }

  static ReferenceImages avg_pool(const ReferenceImages& in) {
    ReferenceImages out(in.n, in.h / 2, in.w / 2, in.c);
    for_each_pooled(out, [&](auto i, auto y, auto x, auto c, auto from_y, auto from_x) {
      out(i, y, x, c) += in(i, from_y, from_x, c) / 4;
    });
    return out;
  }
  static void avg_pool_backward(const ReferenceImages& dout, ReferenceImages& din) {
    for_each_pooled(dout, [&](auto i, auto y, auto x, auto c, auto from_y, auto from_x) {
      din(i, from_y, from_x, c) += dout(i, y, x, c) / 4;
    });
  }
  template <class F>
  static void for_each_pooled(const ReferenceImages& out, const F& f) {
    for (std::int64_t i = 0; i < out.n; ++i) {
      for (std::int64_t y = 0; y < out.h; ++y) {
        for (std::int64_t x = 0; x < out.w; ++x) {
          for (std::int64_t c = 0; c < out.c; ++c) {
            for (std::int64_t k = 0; k < 4; ++k) f(i, y, x, c, 2 * y + k / 2, 2 * x + k % 2);
          }
        }
      }
    }
  }

  // On the flattened image. The kernel is (I, O).
  ReferenceImages dense(const ReferenceLayer& layer, const ReferenceImages& in) const {
    const Doubles &w = kernel(layer), &b = bias(layer);
    const std::size_t inputs = in.values.size() / static_cast<std::size_t>(in.n), outputs = b.size();
    ReferenceImages out(in.n, 1, 1, layer.features);
    for (std::size_t i = 0; i < static_cast<std::size_t>(in.n); ++i) {
      for (std::size_t o = 0; o < outputs; ++o) {
        double sum = b[o];
        for (std::size_t j = 0; j < inputs; ++j) sum += in.values[i * inputs + j] * w[j * outputs + o];
        out.values[i * outputs + o] = sum;
      }
    }
    return out;
  }

  void dense_backward(const ReferenceLayer& layer, const ReferenceImages& in, const ReferenceImages& dout,
                      ReferenceImages& din, ReferenceParams& grads) const {
    const Doubles& w = kernel(layer);
    Doubles &dw = grads[layer.path + "/kernel"], &db = grads[layer.path + "/bias"];
    const std::size_t inputs = in.values.size() / static_cast<std::size_t>(in.n), outputs = bias(layer).size();
    dw.assign(w.size(), 0);
    db.assign(outputs, 0);
    for (std::size_t i = 0; i < static_cast<std::size_t>(in.n); ++i) {
      for (std::size_t o = 0; o < outputs; ++o) {
        const double d = dout.values[i * outputs + o];
        db[o] += d;
        for (std::size_t j = 0; j < inputs; ++j) {
          dw[j * outputs + o] += d * in.values[i * inputs + j];
          din.values[i * inputs + j] += d * w[j * outputs + o];
        }
      }
    }
  }

  static double cross_entropy(const ReferenceImages& logits, const std::vector<std::uint8_t>& labels,
                              ReferenceImages* dlogits) {
    const auto rows = static_cast<std::size_t>(logits.n), classes = static_cast<std::size_t>(logits.c);
    double total = 0;
    for (std::size_t r = 0; r < rows; ++r) {
      const double* row = &logits.values[r * classes];
      const double largest = *std::max_element(row, row + classes);
      double sum = 0;
      for (std::size_t k = 0; k < classes; ++k) sum += std::exp(row[k] - largest);
      total += largest + std::log(sum) - row[labels[r]];
      for (std::size_t k = 0; k < classes && dlogits != nullptr; ++k) {
        const double share = std::exp(row[k] - largest) / sum;
        dlogits->values[r * classes + k] = (share - (k == labels[r] ? 1 : 0)) / static_cast<double>(rows);
      }
    }
    return total / static_cast<double>(rows);
  }

  std::vector<ReferenceLayer> layers_;
  std::map<std::string, Doubles> mu_, nu_;
  int step_ = 0;
};

}  // namespace giro::test
