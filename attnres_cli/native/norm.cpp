// The plain residual's site: add, RMSNorm; and RMSNorm's backward pass, which every scheme shares.
#include "norm.h"

#include "operators.h"
#include "tensors.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

namespace attnres {

// (sum, output, ρ, whether the output can be kept for the backward pass). sum is empty where there is no update and the
// stream can serve as it is; ρ where no backward pass is wanted.
std::tuple<Tensor, Tensor, Tensor, bool> add_norm(
    const Tensor& stream, const optional<Tensor>& update, const Tensor& gain, double epsilon, at::ScalarType dtype,
    bool backward) {
  const int64_t d = stream.size(-1), tokens = stream.numel() / d;
  const auto wide = gain.options();
  const bool fresh = update.has_value() || stream.scalar_type() != gain.scalar_type();
  Tensor sum = fresh ? empty(stream.sizes(), wide) : empty({0}, wide);
  Tensor output = empty(stream.sizes(), wide.dtype(dtype));
  Tensor rho = empty({backward ? tokens : 0}, wide);
  bool keep_output = true;
  AT_DISPATCH_FLOATING_TYPES(gain.scalar_type(), "attnres::add_norm", [&] {
    using A = scalar_t;
    const A* g = gain.const_data_ptr<A>();
    keep_output = backward && can_divide_by(g, d);
    const Matrix from(stream), to_add = update.has_value() ? Matrix(*update) : Matrix();
    const Output out(output);
    A* sums = fresh ? sum.data_ptr<A>() : nullptr;
    A* rhos = backward ? rho.data_ptr<A>() : nullptr;
    at::parallel_for(0, chunks_of(tokens), 1, [&](int64_t first, int64_t last) {
      std::vector<A> scratch(3 * d);
      for (int64_t t = first * kChunk; t < std::min(last * kChunk, tokens); ++t) {
        const A* a = from.row<A>(t, d, scratch.data());
        const A* b = update.has_value() ? to_add.row<A>(t, d, scratch.data() + d) : nullptr;
        A* s = fresh ? sums + t * d : const_cast<A*>(a);
        const A r = inverse_rms(add_and_square(a, b, d, s), d, epsilon);
        A* o = out.begin<A>(t, d, scratch.data() + 2 * d);
        scale_by_gain(s, r, g, d, o);
        out.finish(o, t, d);
        if (backward) {
          rhos[t] = r;
        }
      }
    });
  });
  return {sum, output, rho, keep_output};
}

// (gradient of the input + carry, gradient of the input · input, gradient of the gain)
std::tuple<Tensor, Tensor, Tensor> norm_backward(
    const Tensor& grad, const Tensor& kept, bool kept_is_output, const Tensor& rho, const Tensor& gain, double epsilon,
    const optional<Tensor>& carry) {
  const int64_t tokens = grad.size(0), d = grad.size(1), chunks = chunks_of(tokens);
  const auto wide = gain.options();
  Tensor dx = empty({tokens, d}, wide), dot = empty({tokens}, wide), dgain = zeros({chunks, d}, wide);
  AT_DISPATCH_FLOATING_TYPES(gain.scalar_type(), "attnres::norm_backward", [&] {
    using A = scalar_t;
    const A *g = gain.const_data_ptr<A>(), *rhos = rho.const_data_ptr<A>();
    std::vector<A> inverse_gain;
    if (kept_is_output) {
      inverse_gain.resize(d);
      for (int64_t k = 0; k < d; ++k) {
        inverse_gain[k] = A(1) / g[k];
      }
    }
    const NormBackward<A> backward{g, kept_is_output ? inverse_gain.data() : nullptr, d, epsilon};
    const Matrix grads(grad), rows(kept), carried = carry.has_value() ? Matrix(*carry) : Matrix();
    A *dxs = dx.data_ptr<A>(), *dots = dot.data_ptr<A>(), *dgains = dgain.data_ptr<A>();
    at::parallel_for(0, chunks, 1, [&](int64_t first, int64_t last) {
      std::vector<A> scratch(3 * d);
      for (int64_t chunk = first; chunk < last; ++chunk) {
        for (int64_t t = chunk * kChunk; t < std::min((chunk + 1) * kChunk, tokens); ++t) {
          const A* c = carry.has_value() ? carried.row<A>(t, d, scratch.data() + 2 * d) : nullptr;
          dots[t] = backward(
              grads.row<A>(t, d, scratch.data()), rows.row<A>(t, d, scratch.data() + d), rhos[t], c, dxs + t * d,
              dgains + chunk * d);
        }
      }
    });
  });
  return {dx, dot, dgain.sum(0)};
}

}  // namespace attnres
