#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include <giro/kernels/nn/scope.h>

namespace giro::nn {

// The numbers of a model's calls, as found when a state was created for it: where several stood in one full expression,
// by their places in the text. Later calls of the model come in the same order, since the same compiler chose it.
struct CallOrder {
  // Of calls that get another number than that of their evaluation: by scope and name, and by the second.
  std::map<std::pair<std::string, int>, int> numbers;
  bool is_known = false;  // the model has been called once
  std::string unclear;    // calls that have one place, as in a macro's argument, and so no order

  int number_of(const std::string& key, int evaluated) const {
    const auto found = numbers.find({key, evaluated});
    return found != numbers.end() ? found->second : evaluated;
  }
};

// Calls of parts and requests of leaves in one full expression, in the order of their evaluation.
struct CallGroup {
  struct Call {
    std::string key;  // scope and name
    int number;       // by the order of evaluation
    std::source_location where;
    std::vector<std::size_t> inputs;  // calls before it on whose results its inputs depend
    std::size_t first_leaf;           // that it may declare
  };

  CallGroup(std::shared_ptr<CallOrder> order, std::weak_ptr<std::vector<DeclaredLeaf>> declared)
      : order(std::move(order)), declared(std::move(declared)) {}
  // Numbers the calls anew, and sorts the leaves that they declared: by their places in the text, but after those whose
  // results they take.
  void close();

  std::shared_ptr<CallOrder> order;
  std::weak_ptr<std::vector<DeclaredLeaf>> declared;  // a place may outlive the state's creation
  std::vector<Call> calls;
  int open = 0;  // calls whose places live
};

}  // namespace giro::nn
