// Rows of one token as vectors: products, weighted sums, conversions. Everything is written with ATen's portable
// vectors; A is the type that is computed in (float or double).
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/cpu/vec/vec.h>
#include <c10/core/ScalarType.h>

#include <vector>

namespace attnres {

template <class A>
using Vec = at::vec::Vectorized<A>;

// Tokens that one task works through. Fixed, so that sums over tokens do not depend on the number of threads.
constexpr int64_t kChunk = 32;

inline int64_t chunks_of(int64_t tokens) {
  return (tokens + kChunk - 1) / kChunk;
}

template <class A>
inline A sum_of(Vec<A> v) {
  return at::vec::vec_reduce_all<A>([](Vec<A>& a, Vec<A>& b) { return a + b; }, v);
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

// out[i] = rows[i] · x. Four rows at a time, so that x is loaded once for four products.
template <class A>
inline void products(const A* const* rows, int64_t n, const A* x, int64_t d, A* out) {
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    const A *r0 = rows[i], *r1 = rows[i + 1], *r2 = rows[i + 2], *r3 = rows[i + 3];
    Vec<A> s0(0), s1(0), s2(0), s3(0);
    for_vectors<A>(
        d,
        [&](int64_t k) {
          const auto y = Vec<A>::loadu(x + k);
          __builtin_prefetch(r0 + d + k);
          __builtin_prefetch(r1 + d + k);
          __builtin_prefetch(r2 + d + k);
          __builtin_prefetch(r3 + d + k);
          s0 = at::vec::fmadd(Vec<A>::loadu(r0 + k), y, s0);
          s1 = at::vec::fmadd(Vec<A>::loadu(r1 + k), y, s1);
          s2 = at::vec::fmadd(Vec<A>::loadu(r2 + k), y, s2);
          s3 = at::vec::fmadd(Vec<A>::loadu(r3 + k), y, s3);
        },
        [&](int64_t k, int64_t count) {
          const auto y = Vec<A>::loadu(x + k, count);
          s0 = at::vec::fmadd(Vec<A>::loadu(r0 + k, count), y, s0);
          s1 = at::vec::fmadd(Vec<A>::loadu(r1 + k, count), y, s1);
          s2 = at::vec::fmadd(Vec<A>::loadu(r2 + k, count), y, s2);
          s3 = at::vec::fmadd(Vec<A>::loadu(r3 + k, count), y, s3);
        });
    out[i] = sum_of(s0);
    out[i + 1] = sum_of(s1);
    out[i + 2] = sum_of(s2);
    out[i + 3] = sum_of(s3);
  }
  for (; i < n; ++i) {
    constexpr int64_t width = Vec<A>::size();
    const A* r = rows[i];
    Vec<A> s0(0), s1(0);
    int64_t k = 0;
    for (; k + 2 * width <= d; k += 2 * width) {
      s0 = at::vec::fmadd(Vec<A>::loadu(r + k), Vec<A>::loadu(x + k), s0);
      s1 = at::vec::fmadd(Vec<A>::loadu(r + k + width), Vec<A>::loadu(x + k + width), s1);
    }
    for (; k < d; k += width) {
      const int64_t count = std::min(width, d - k);
      s0 = at::vec::fmadd(Vec<A>::loadu(r + k, count), Vec<A>::loadu(x + k, count), s0);
    }
    out[i] = sum_of(s0 + s1);
  }
}

// sum[k] += Σ_i weights[i] rows[i][k]. Eight vectors of the sum stay in registers while all rows pass by.
template <class A>
inline void add_weighted(const A* const* rows, const A* weights, int64_t n, int64_t d, A* sum) {
  constexpr int64_t width = Vec<A>::size();
  constexpr int64_t wide = 8;
  int64_t k = 0;
  for (; k + wide * width <= d; k += wide * width) {
    Vec<A> s[wide];
    for (int64_t j = 0; j < wide; ++j) {
      s[j] = Vec<A>::loadu(sum + k + j * width);
    }
    for (int64_t i = 0; i < n; ++i) {
      const Vec<A> w(weights[i]);
      const A* r = rows[i] + k;
      for (int64_t j = 0; j < wide; ++j) {
        s[j] = at::vec::fmadd(w, Vec<A>::loadu(r + j * width), s[j]);
      }
    }
    for (int64_t j = 0; j < wide; ++j) {
      s[j].store(sum + k + j * width);
    }
  }
  for (; k < d; k += width) {
    const int64_t count = std::min(width, d - k);
    auto s = Vec<A>::loadu(sum + k, count);
    for (int64_t i = 0; i < n; ++i) {
      s = at::vec::fmadd(Vec<A>(weights[i]), Vec<A>::loadu(rows[i] + k, count), s);
    }
    s.store(sum + k, count);
  }
}

// x[i] = exp(x[i] - shift)
template <class A>
inline void exponentials(A* x, int64_t n, A shift) {
  for_vectors<A>(
      n, [&](int64_t i) { (Vec<A>::loadu(x + i) - Vec<A>(shift)).exp().store(x + i); },
      [&](int64_t i, int64_t count) { (Vec<A>::loadu(x + i, count) - Vec<A>(shift)).exp().store(x + i, count); });
}

}  // namespace attnres
