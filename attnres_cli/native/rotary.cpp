// Rotary positions, in place: the first heads of a fused [B, T, heads, head size] are turned, the rest left alone.
#include "operators.h"
#include "rows.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

namespace attnres {
namespace {

// (even, odd) ← (even cos - odd sin, odd cos + even sin) for neighbouring channels; sign -1 turns back.
template <class T, class A>
void turn_heads(T* x, const A* turns, int64_t heads, int64_t pairs, A sign) {
  for (int64_t head = 0; head < heads; ++head, x += 2 * pairs) {
    for (int64_t i = 0; i < pairs; ++i) {
      const A even = static_cast<A>(x[2 * i]), odd = static_cast<A>(x[2 * i + 1]);
      const A cosine = turns[2 * i], sine = sign * turns[2 * i + 1];
      x[2 * i] = static_cast<T>(even * cosine - odd * sine);
      x[2 * i + 1] = static_cast<T>(odd * cosine + even * sine);
    }
  }
}

}  // namespace

// heads: [B, T, all, head size], contiguous; turns: [T, head size / 2, 2], (cos, sin) in float or double.
void turn_(Tensor heads, const Tensor& turns, int64_t turned, bool back) {
  const int64_t length = heads.size(1), all = heads.size(2), size = heads.size(3), tokens = heads.size(0) * length;
  TORCH_CHECK(heads.is_contiguous() && turns.is_contiguous(), "heads and turns must be contiguous");
  AT_DISPATCH_FLOATING_TYPES(turns.scalar_type(), "attnres::turn_", [&] {
    using A = scalar_t;
    const A* table = turns.const_data_ptr<A>();
    AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, heads.scalar_type(), "attnres::turn_", [&] {
      scalar_t* x = heads.data_ptr<scalar_t>();
      at::parallel_for(0, chunks_of(tokens), 1, [&](int64_t first, int64_t last) {
        for (int64_t t = first * kChunk; t < std::min(last * kChunk, tokens); ++t) {
          turn_heads(x + t * all * size, table + (t % length) * size, turned, size / 2, back ? A(-1) : A(1));
        }
      });
    });
  });
}

}  // namespace attnres
