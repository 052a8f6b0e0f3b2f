// Rows of one token as vectors: products, weighted sums, conversions. Everything is written with ATen's portable
// vectors; A is the type that is computed in (float or double).
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/cpu/vec/functional.h>
#include <ATen/cpu/vec/vec.h>
#include <c10/core/ScalarType.h>

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

namespace attnres {

template <class A>
using Vec = at::vec::Vectorized<A>;

// Tokens that one task works through. Fixed, so that what is summed here does not depend on the number of threads. What
// is left to the library's matrix products (depth_attention.cpp) is the same, bit for bit, at one number of threads.
constexpr int64_t kChunk = 32;

inline int64_t chunks_of(int64_t tokens) {
  return (tokens + kChunk - 1) / kChunk;
}

template <class A>
inline A sum_of(Vec<A> v) {
  return at::vec::vec_reduce_all<A>([](const Vec<A>& a, const Vec<A>& b) { return a + b; }, v);
}

// A matrix of tokens × d in whatever floating type; `row` gives one token's row as A, through `scratch` [d] if need be.
struct Matrix {
  const void* data = nullptr;
  at::ScalarType type = at::kFloat;

  Matrix() = default;
  explicit Matrix(const at::Tensor& tensor) : data(tensor.const_data_ptr()), type(tensor.scalar_type()) {
    TORCH_CHECK(tensor.is_contiguous(), "rows must be contiguous");
  }

  template <class A>
  const A* row(int64_t token, int64_t d, A* scratch) const {
    if (type == c10::CppTypeToScalarType<A>::value) {
      return static_cast<const A*>(data) + token * d;
    }
    switch (type) {
      case at::kBFloat16:
        return widened(static_cast<const at::BFloat16*>(data) + token * d, d, scratch);
      case at::kHalf:
        return widened(static_cast<const at::Half*>(data) + token * d, d, scratch);
      case at::kFloat:
        return widened(static_cast<const float*>(data) + token * d, d, scratch);
      default:
        TORCH_CHECK(false, "rows of type ", type, " are not supported");
    }
  }

 private:
  template <class A, class T>
  static const A* widened(const T* from, int64_t d, A* scratch) {
    for (int64_t k = 0; k < d; ++k) {
      scratch[k] = static_cast<A>(from[k]);
    }
    return scratch;
  }
};

inline std::vector<Matrix> matrices(at::TensorList tensors) {
  std::vector<Matrix> found;
  found.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    found.emplace_back(tensor);
  }
  return found;
}

// Where a row of type A is written, converted to the output's type.
struct Output {
  void* data = nullptr;
  at::ScalarType type = at::kFloat;

  Output() = default;
  explicit Output(const at::Tensor& tensor) : data(tensor.data_ptr()), type(tensor.scalar_type()) {}

  // Where to compute token's row: in place if the type is A, else in `scratch`, which `finish` converts.
  template <class A>
  A* begin(int64_t token, int64_t d, A* scratch) const {
    return type == c10::CppTypeToScalarType<A>::value ? static_cast<A*>(data) + token * d : scratch;
  }

  template <class A>
  void finish(const A* row, int64_t token, int64_t d) const {
    if (type == at::kBFloat16) {
      at::vec::convert(row, static_cast<at::BFloat16*>(data) + token * d, d);
    } else if (type == at::kHalf) {
      at::vec::convert(row, static_cast<at::Half*>(data) + token * d, d);
    } else if (type != c10::CppTypeToScalarType<A>::value) {
      at::vec::convert(row, static_cast<float*>(data) + token * d, d);
    }
  }
};

// Calls full(k) for every whole vector of d elements and rest(k, count) for what is left.
template <class A, class Full, class Rest>
inline void for_vectors(int64_t d, Full full, Rest rest) {
  constexpr int64_t width = Vec<A>::size();
  int64_t k = 0;
  for (; k + width <= d; k += width) {
    full(k);
  }
  if (k < d) {
    rest(k, d - k);
  }
}

// How a step of a loop over channels reads and writes: whole vectors, or the rest of a row.
template <class A>
struct Whole {
  int64_t k;
  Vec<A> load(const A* p) const {
    return Vec<A>::loadu(p + k);
  }
  void store(const Vec<A>& v, A* p) const {
    v.store(p + k);
  }
};

template <class A>
struct Rest {
  int64_t k, count;
  Vec<A> load(const A* p) const {
    return Vec<A>::loadu(p + k, count);
  }
  void store(const Vec<A>& v, A* p) const {
    v.store(p + k, count);
  }
};

// step(at) for all d channels.
template <class A, class Step>
inline void for_channels(int64_t d, Step step) {
  for_vectors<A>(
      d, [&](int64_t k) { step(Whole<A>{k}); }, [&](int64_t k, int64_t count) { step(Rest<A>{k, count}); });
}

// The sum over d channels of what step(at, sum) adds to sum; four sums in turn, so that additions need not wait.
template <class A, class Step>
inline A sum_over_channels(int64_t d, Step step) {
  constexpr int64_t width = Vec<A>::size();
  Vec<A> s0(0), s1(0), s2(0), s3(0);
  int64_t k = 0;
  for (; k + 4 * width <= d; k += 4 * width) {
    step(Whole<A>{k}, s0);
    step(Whole<A>{k + width}, s1);
    step(Whole<A>{k + 2 * width}, s2);
    step(Whole<A>{k + 3 * width}, s3);
  }
  for (; k + width <= d; k += width) {
    step(Whole<A>{k}, s0);
  }
  if (k < d) {
    step(Rest<A>{k, d - k}, s1);
  }
  return sum_of((s0 + s1) + (s2 + s3));
}

// out[x * n + r] = rows[r] · xs[x] for R rows and X vectors, whose R X sums stay in registers.
template <class A, int R, int X>
inline void product_block(const A* const* rows, const A* const* xs, int64_t n, int64_t d, A* out) {
  Vec<A> sums[X][R];
  for (int x = 0; x < X; ++x) {
    for (int r = 0; r < R; ++r) {
      sums[x][r] = Vec<A>(0);
    }
  }
  for_channels<A>(d, [&](auto at) {
    Vec<A> row[R];
    for (int r = 0; r < R; ++r) {
      row[r] = at.load(rows[r]);
    }
    for (int x = 0; x < X; ++x) {
      const Vec<A> y = at.load(xs[x]);
      for (int r = 0; r < R; ++r) {
        sums[x][r] = at::vec::fmadd(row[r], y, sums[x][r]);
      }
    }
  });
  for (int x = 0; x < X; ++x) {
    for (int r = 0; r < R; ++r) {
      out[x * n + r] = sum_of(sums[x][r]);
    }
  }
}

template <class A>
inline A product(const A* a, const A* b, int64_t d) {
  return sum_over_channels<A>(d, [&](auto at, Vec<A>& sum) { sum = at::vec::fmadd(at.load(a), at.load(b), sum); });
}

// out[x * n + i] = rows[i] · xs[x]: n rows, each loaded once, with m vectors that stay in the first-level cache.
template <class A>
inline void products(const A* const* rows, int64_t n, const A* const* xs, int64_t m, int64_t d, A* out) {
  const auto with_rows = [&](auto count, int64_t i) {
    constexpr int R = decltype(count)::value;
    int64_t x = 0;
    for (; x + 2 <= m; x += 2) {
      product_block<A, R, 2>(rows + i, xs + x, n, d, out + x * n + i);
    }
    if (x < m) {
      product_block<A, R, 1>(rows + i, xs + x, n, d, out + x * n + i);
    }
  };
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    with_rows(std::integral_constant<int, 4>(), i);
  }
  for (; i + 2 <= n; i += 2) {
    with_rows(std::integral_constant<int, 2>(), i);
  }
  if (i < n) {
    for (int64_t x = 0; x < m; ++x) {
      out[x * n + i] = product(rows[i], xs[x], d);
    }
  }
}

// sums[x][k] += Σ_i weights[x * n + i] rows[i][k] for X sums and K vectors from k on, which stay in registers.
template <class A, int X, int K>
inline void weighted_block(
    const A* const* rows, const A* weights, int64_t n, int64_t k, int64_t count, A* const* sums) {
  constexpr int64_t width = Vec<A>::size();
  const auto load = [&](const A* p, int j) {
    return K > 1 || count == width ? Vec<A>::loadu(p + k + j * width) : Vec<A>::loadu(p + k, count);
  };
  Vec<A> s[X][K];
  for (int x = 0; x < X; ++x) {
    for (int j = 0; j < K; ++j) {
      s[x][j] = load(sums[x], j);
    }
  }
  for (int64_t i = 0; i < n; ++i) {
    Vec<A> row[K];
    for (int j = 0; j < K; ++j) {
      row[j] = load(rows[i], j);
    }
    for (int x = 0; x < X; ++x) {
      const Vec<A> w(weights[x * n + i]);
      for (int j = 0; j < K; ++j) {
        s[x][j] = at::vec::fmadd(w, row[j], s[x][j]);
      }
    }
  }
  for (int x = 0; x < X; ++x) {
    for (int j = 0; j < K; ++j) {
      if (K > 1 || count == width) {
        s[x][j].store(sums[x] + k + j * width);
      } else {
        s[x][j].store(sums[x] + k, count);
      }
    }
  }
}

// sums[x][k] += Σ_i weights[x * n + i] rows[i][k] for m sums of d channels.
template <class A>
inline void add_weighted(const A* const* rows, const A* weights, int64_t n, int64_t m, int64_t d, A* const* sums) {
  constexpr int64_t width = Vec<A>::size();
  int64_t k = 0;
  for (; k + 4 * width <= d; k += 4 * width) {
    int64_t x = 0;
    for (; x + 3 <= m; x += 3) {
      weighted_block<A, 3, 4>(rows, weights + x * n, n, k, width, sums + x);
    }
    for (; x < m; ++x) {
      weighted_block<A, 1, 4>(rows, weights + x * n, n, k, width, sums + x);
    }
  }
  for (; k < d; k += width) {
    for (int64_t x = 0; x < m; ++x) {
      weighted_block<A, 1, 1>(rows, weights + x * n, n, k, std::min(width, d - k), sums + x);
    }
  }
}

// x[i] = exp(x[i] - shift)
template <class A>
inline void exponentials(A* x, int64_t n, A shift) {
  if (n <= 2) {  // a vector that is mostly empty costs more
    for (int64_t i = 0; i < n; ++i) {
      x[i] = std::exp(x[i] - shift);
    }
    return;
  }
  for_vectors<A>(
      n, [&](int64_t i) { (Vec<A>::loadu(x + i) - Vec<A>(shift)).exp().store(x + i); },
      [&](int64_t i, int64_t count) { (Vec<A>::loadu(x + i, count) - Vec<A>(shift)).exp().store(x + i, count); });
}

}  // namespace attnres
