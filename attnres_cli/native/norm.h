// RMSNorm of one token's row: y = gain ⊙ x ρ, ρ = 1 / sqrt(mean x² + ε).
#pragma once

#include "rows.h"

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
  for_channels<A>(d, [&](auto at) { at.store(at.load(x) * r * at.load(gain), out); });
}

// sum[k] = a[k] + b[k]; returns Σ sum². b may be null: sum = a (and a may be sum itself).
template <class A>
inline A add_and_square(const A* a, const A* b, int64_t d, A* sum) {
  return sum_over_channels<A>(d, [&](auto at, Vec<A>& squares) {
    auto s = at.load(a);
    if (b != nullptr) {
      s = s + at.load(b);
    }
    if (sum != a) {
      at.store(s, sum);
    }
    squares = at::vec::fmadd(s, s, squares);
  });
}

// The backward pass of one row. With x̂ the normalised input and u = mean(dy ⊙ gain ⊙ x̂):
//   dx = ρ (gain ⊙ dy - u x̂) [+ carry],  dgain += dy ⊙ x̂.  Returns dx · x (without carry) = d u ε ρ².
// x̂ comes from the kept row: output / gain, or input ρ.
template <class A>
struct NormBackward {
  const A* gain;
  const A* inverse_gain;  // null: the input was kept
  int64_t d;
  double epsilon;

  A operator()(const A* dy, const A* kept, A rho, const A* carry, A* dx, A* dgain) const {
    const Vec<A> r(rho);
    const bool from_output = inverse_gain != nullptr;
    const A u = sum_over_channels<A>(d, [&](auto at, Vec<A>& sum) {
      const auto y = at.load(dy), x = at.load(kept);
      sum = from_output ? at::vec::fmadd(y, x, sum) : at::vec::fmadd(y * at.load(gain), x * r, sum);
    }) / A(d);
    const Vec<A> minus_u(-u);
    for_channels<A>(d, [&](auto at) {
      const auto y = at.load(dy);
      const auto x = at.load(kept) * (from_output ? at.load(inverse_gain) : r);
      at.store(at::vec::fmadd(y, x, at.load(dgain)), dgain);
      auto out = at::vec::fmadd(minus_u, x, y * at.load(gain)) * r;
      if (carry != nullptr) {
        out = out + at.load(carry);
      }
      at.store(out, dx);
    });
    return A(d) * u * A(epsilon) * rho * rho;
  }
};

}  // namespace attnres
