// RMSNorm of one token's row: y = gain ⊙ x ρ, ρ = 1 / sqrt(mean x² + ε).
#pragma once

#include "rows.h"

#include <cmath>

namespace attnres {

// Gains below this are not divided by: x̂ = y / gain would lose digits, or all of them.
constexpr double kSmallGain = 1e-3;

template <class A>
inline bool can_divide_by(const A* gain, int64_t d) {
  for (int64_t k = 0; k < d; ++k) {
    if (!(std::abs(gain[k]) >= A(kSmallGain))) {
      return false;
    }
  }
  return true;
}

template <class A>
inline A inverse_rms(A sum_of_squares, int64_t d, double epsilon) {
  return A(1) / std::sqrt(sum_of_squares / A(d) + A(epsilon));
}

// out = gain ⊙ x ρ
template <class A>
inline void scale_by_gain(const A* x, A rho, const A* gain, int64_t d, A* out) {
  const Vec<A> r(rho);
  for_vectors<A>(
      d, [&](int64_t k) { (Vec<A>::loadu(x + k) * r * Vec<A>::loadu(gain + k)).store(out + k); },
      [&](int64_t k, int64_t count) {
        (Vec<A>::loadu(x + k, count) * r * Vec<A>::loadu(gain + k, count)).store(out + k, count);
      });
}

// sum[k] = a[k] + b[k]; returns Σ sum². b may be null: sum = a (and a may be sum itself).
template <class A>
inline A add_and_square(const A* a, const A* b, int64_t d, A* sum) {
  Vec<A> squares(0);
  const auto step = [&](int64_t k, int64_t count, bool whole) {
    auto s = whole ? Vec<A>::loadu(a + k) : Vec<A>::loadu(a + k, count);
    if (b != nullptr) {
      s = s + (whole ? Vec<A>::loadu(b + k) : Vec<A>::loadu(b + k, count));
    }
    if (sum != a) {
      whole ? s.store(sum + k) : s.store(sum + k, count);
    }
    squares = at::vec::fmadd(s, s, squares);
  };
  for_vectors<A>(d, [&](int64_t k) { step(k, 0, true); }, [&](int64_t k, int64_t count) { step(k, count, false); });
  return sum_of(squares);
}

// The backward pass of one row. With x̂ the normalised input and u = mean(dy ⊙ gain ⊙ x̂):
//   dx = ρ (gain ⊙ dy - u x̂) [+ carry],  dgain += dy ⊙ x̂.  Returns dx · x (without carry) = d u ε ρ².
// to_normalised turns the kept row into x̂: 1 / gain where the output was kept, ρ where the input was.
template <class A>
struct NormBackward {
  const A* gain;
  const A* inverse_gain;  // null: the input was kept
  int64_t d;
  double epsilon;

  A operator()(const A* dy, const A* kept, A rho, const A* carry, A* dx, A* dgain) const {
    Vec<A> products(0);
    const Vec<A> r(rho);
    if (inverse_gain != nullptr) {  // dy ⊙ gain ⊙ x̂ = dy ⊙ y
      for_vectors<A>(
          d, [&](int64_t k) { products = at::vec::fmadd(Vec<A>::loadu(dy + k), Vec<A>::loadu(kept + k), products); },
          [&](int64_t k, int64_t n) {
            products = at::vec::fmadd(Vec<A>::loadu(dy + k, n), Vec<A>::loadu(kept + k, n), products);
          });
    } else {
      for_vectors<A>(
          d,
          [&](int64_t k) {
            products =
                at::vec::fmadd(Vec<A>::loadu(dy + k) * Vec<A>::loadu(gain + k), Vec<A>::loadu(kept + k) * r, products);
          },
          [&](int64_t k, int64_t n) {
            products = at::vec::fmadd(
                Vec<A>::loadu(dy + k, n) * Vec<A>::loadu(gain + k, n), Vec<A>::loadu(kept + k, n) * r, products);
          });
    }
    const A u = sum_of(products) / A(d);
    const Vec<A> minus_u(-u);
    for_vectors<A>(
        d,
        [&](int64_t k) {
          const auto y = Vec<A>::loadu(dy + k);
          const auto x = Vec<A>::loadu(kept + k) * (inverse_gain != nullptr ? Vec<A>::loadu(inverse_gain + k) : r);
          at::vec::fmadd(y, x, Vec<A>::loadu(dgain + k)).store(dgain + k);
          auto out = at::vec::fmadd(minus_u, x, y * Vec<A>::loadu(gain + k)) * r;
          if (carry != nullptr) {
            out = out + Vec<A>::loadu(carry + k);
          }
          out.store(dx + k);
        },
        [&](int64_t k, int64_t n) {
          const auto y = Vec<A>::loadu(dy + k, n);
          const auto x =
              Vec<A>::loadu(kept + k, n) * (inverse_gain != nullptr ? Vec<A>::loadu(inverse_gain + k, n) : r);
          at::vec::fmadd(y, x, Vec<A>::loadu(dgain + k, n)).store(dgain + k, n);
          auto out = at::vec::fmadd(minus_u, x, y * Vec<A>::loadu(gain + k, n)) * r;
          if (carry != nullptr) {
            out = out + Vec<A>::loadu(carry + k, n);
          }
          out.store(dx + k, n);
        });
    return A(d) * u * A(epsilon) * rho * rho;
  }
};

}  // namespace attnres
