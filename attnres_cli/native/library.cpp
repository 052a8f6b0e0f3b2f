// Registers the operators with torch; operators.py has their signatures. Compiled by itself, at the same time as the
// rest: the header of the registration takes as long to read as all others together.
#include "operators.h"

#include <torch/library.h>

namespace attnres {

TORCH_LIBRARY_IMPL(attnres, CPU, m) {
  m.impl("add_norm", &add_norm);
  m.impl("norm_backward", &norm_backward);
  m.impl("site", &site);
  m.impl("site_forward", &site_forward);
  m.impl("look_ahead", &look_ahead);
  m.impl("source_backward", &source_backward);
  m.impl("swiglu", &swiglu);
  m.impl("swiglu_backward", &swiglu_backward);
  m.impl("turn_", &turn_);
}

}  // namespace attnres
