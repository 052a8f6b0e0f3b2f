// silu(gate) ⊙ up of a fused matrix [gate | up], and its gradient, in one pass each; only the fused matrix is kept.
#include "operators.h"
#include "rows.h"
#include "tensors.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

namespace attnres {
namespace {

// Narrow types are computed in float.
at::ScalarType computed_in(const Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

template <class A>
inline Vec<A> sigmoid(const Vec<A>& x) {
  return Vec<A>(1) / (Vec<A>(1) + x.neg().exp());
}

}  // namespace

Tensor swiglu(const Tensor& gate_up) {
  const int64_t tokens = gate_up.size(0), d = gate_up.size(1) / 2;
  Tensor output = empty({tokens, d}, gate_up.options());
  AT_DISPATCH_FLOATING_TYPES(computed_in(gate_up), "attnres::swiglu", [&] {
    using A = scalar_t;
    const Matrix from(gate_up);
    const Output to(output);
    at::parallel_for(0, chunks_of(tokens), 1, [&](int64_t first, int64_t last) {
      std::vector<A> scratch(3 * d);
      for (int64_t t = first * kChunk; t < std::min(last * kChunk, tokens); ++t) {
        const A* gate = from.row<A>(t, 2 * d, scratch.data());
        const A* up = gate + d;
        A* out = to.begin<A>(t, d, scratch.data() + 2 * d);
        for_channels<A>(d, [&](auto at) {
          const auto g = at.load(gate);
          at.store(g * sigmoid(g) * at.load(up), out);
        });
        to.finish(out, t, d);
      }
    });
  });
  return output;
}

// With s = σ(gate) and a = gate s: a' = s + a (1 - s).
Tensor swiglu_backward(const Tensor& grad, const Tensor& gate_up) {
  const int64_t tokens = gate_up.size(0), d = gate_up.size(1) / 2;
  Tensor result = attnres::empty_like(gate_up);
  AT_DISPATCH_FLOATING_TYPES(computed_in(gate_up), "attnres::swiglu_backward", [&] {
    using A = scalar_t;
    const Matrix from(gate_up), grads(grad);
    const Output to(result);
    at::parallel_for(0, chunks_of(tokens), 1, [&](int64_t first, int64_t last) {
      std::vector<A> scratch(5 * d);
      for (int64_t t = first * kChunk; t < std::min(last * kChunk, tokens); ++t) {
        const A* gate = from.row<A>(t, 2 * d, scratch.data());
        const A* up = gate + d;
        const A* dy = grads.row<A>(t, d, scratch.data() + 2 * d);
        A* dgate = to.begin<A>(t, 2 * d, scratch.data() + 3 * d);
        A* dup = dgate + d;
        for_channels<A>(d, [&](auto at) {
          const auto g = at.load(gate), y = at.load(dy), s = sigmoid(g), a = g * s;
          at.store(y * at.load(up) * at::vec::fmadd(a, Vec<A>(1) - s, s), dgate);
          at.store(y * a, dup);
        });
        to.finish(dgate, t, 2 * d);
      }
    });
  });
  return result;
}

}  // namespace attnres
