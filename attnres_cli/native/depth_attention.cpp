// Softmax attention over depth (arXiv 2603.15031, Eq. 2-4), whole sites at a time, both directions.
//
// A token's sources are rows of separate matrices; they are read where they lie. Forward: block sum, 1/rms, logits,
// softmax, weighted sum and the PreNorm in one visit to each token. Backward: a source gathers its gradient from all
// its consumers in one visit to each token, when the last of them is done.
#include "norm.h"

#include "operators.h"
#include "tensors.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <limits>

namespace attnres {
namespace {

template <class A>
std::vector<const A*> pointers(TensorList tensors) {
  std::vector<const A*> found;
  for (const Tensor& tensor : tensors) {
    TORCH_CHECK(tensor.is_contiguous(), "per-token numbers must be contiguous");
    found.push_back(tensor.const_data_ptr<A>());
  }
  return found;
}

// Phase one of a site that was computed ahead: Σ exp(logit - peak) v, peak and Σ exp(logit - peak).
template <class A>
struct Ahead {
  const A *mixed = nullptr, *peak = nullptr, *total = nullptr;
};

// out = factor v + carry; carry may be null.
template <class A>
inline void start_from(const A* v, A factor, const A* carry, int64_t d, A* out) {
  const Vec<A> f(factor);
  for_channels<A>(d, [&](auto at) {
    const auto x = at.load(v) * f;
    at.store(carry != nullptr ? x + at.load(carry) : x, out);
  });
}

// What a site gives. value is empty where the newest source has no update and serves as it is; kept is empty where the
// output serves; kept, rho, logits and log_total are undefined where no backward pass is wanted.
struct SiteResults {
  Tensor value, scale, output, kept, rho, logits, log_total;
};

SiteResults run_site(
    TensorList values, TensorList scales, const Tensor& newest, const optional<Tensor>& update, const Tensor& query,
    const Tensor& gain, double epsilon, at::ScalarType dtype, const optional<Tensor>& ahead_mixed,
    const optional<Tensor>& ahead_peak, const optional<Tensor>& ahead_total, bool backward) {
  const int64_t d = newest.size(-1), tokens = newest.numel() / d;
  const int64_t finished = static_cast<int64_t>(values.size()), n = finished + 1;
  const auto wide = gain.options();
  Tensor value = update.has_value() ? empty(newest.sizes(), wide) : empty({0}, wide);
  Tensor scale = empty({tokens}, wide);
  Tensor output = empty(newest.sizes(), wide.dtype(dtype));
  Tensor kept, rho, logits, log_total;
  if (backward) {
    kept = empty({0}, wide);
    rho = empty({tokens}, wide);
    logits = empty({tokens, n}, wide);
    log_total = empty({tokens}, wide);
  }
  AT_DISPATCH_FLOATING_TYPES(gain.scalar_type(), "attnres::site", [&] {
    using A = scalar_t;
    const A *g = gain.const_data_ptr<A>(), *q = query.const_data_ptr<A>();
    if (backward && !can_divide_by(g, d)) {
      kept = empty(newest.sizes(), wide);
    }
    A* keeps = backward && kept.numel() > 0 ? kept.data_ptr<A>() : nullptr;
    const auto sources = matrices(values);
    const Matrix base(newest), to_add = update.has_value() ? Matrix(*update) : Matrix();
    const Output out(output);
    const auto known = pointers<A>(scales);
    Ahead<A> ahead;
    if (ahead_mixed.has_value()) {
      ahead = {ahead_mixed->const_data_ptr<A>(), ahead_peak->const_data_ptr<A>(), ahead_total->const_data_ptr<A>()};
    }
    A *sums = update.has_value() ? value.data_ptr<A>() : nullptr, *r = scale.data_ptr<A>();
    const auto is_wide = [](const Matrix& m) { return m.type == c10::CppTypeToScalarType<A>::value; };
    const bool all_wide = std::all_of(sources.begin(), sources.end(), is_wide) && is_wide(base) &&
        (!update.has_value() || is_wide(to_add));
    at::parallel_for(0, chunks_of(tokens), 1, [&](int64_t first, int64_t last) {
      std::vector<A> room(all_wide ? 0 : (n + 1) * d), mixed(d), normed(d), logit(n), weight(n);
      A* const widened = room.data();
      std::vector<const A*> rows(n);
      for (int64_t t = first * kChunk; t < std::min(last * kChunk, tokens); ++t) {
        for (int64_t i = 0; i < finished; ++i) {
          rows[i] = sources[i].template row<A>(t, d, widened + i * d);
        }
        const A* a = base.row<A>(t, d, widened + finished * d);
        A* own = const_cast<A*>(a);
        const A* b = nullptr;
        if (update.has_value()) {
          b = to_add.row<A>(t, d, widened + n * d);
          own = sums + t * d;
        }
        r[t] = inverse_rms(add_and_square(a, b, d, own), d, epsilon);
        rows[finished] = own;

        products(rows.data(), n, &q, 1, d, logit.data());
        A peak = ahead.peak != nullptr ? ahead.peak[t] : -std::numeric_limits<A>::infinity();
        for (int64_t i = 0; i < n; ++i) {
          logit[i] *= i < finished ? known[i][t] : r[t];
          peak = std::max(peak, logit[i]);
        }
        std::copy(logit.begin(), logit.end(), weight.begin());
        exponentials(weight.data(), n, peak);
        A total = 0;
        for (int64_t i = 0; i < n; ++i) {
          total += weight[i];
        }
        A kept_share = 0;
        if (ahead.mixed != nullptr) {
          kept_share = std::exp(ahead.peak[t] - peak);
          total += kept_share * ahead.total[t];
        }
        for (int64_t i = 0; i < n; ++i) {
          weight[i] /= total;
        }
        if (ahead.mixed != nullptr) {
          start_from<A>(ahead.mixed + t * d, kept_share / total, nullptr, d, mixed.data());
        } else {
          std::fill(mixed.begin(), mixed.end(), A(0));
        }
        A* const mixture = mixed.data();
        add_weighted(rows.data(), weight.data(), n, 1, d, &mixture);

        const A rho_t = inverse_rms(add_and_square<A>(mixed.data(), nullptr, d, mixed.data()), d, epsilon);
        A* o = out.begin<A>(t, d, normed.data());
        scale_by_gain(mixed.data(), rho_t, g, d, o);
        out.finish(o, t, d);
        if (backward) {
          rho.data_ptr<A>()[t] = rho_t;
          log_total.data_ptr<A>()[t] = peak + std::log(total);
          std::copy(logit.begin(), logit.end(), logits.data_ptr<A>() + t * n);
          if (keeps != nullptr) {
            std::copy(mixed.begin(), mixed.end(), keeps + t * d);
          }
        }
      }
    });
  });
  return {value, scale, output, kept, rho, logits, log_total};
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> site(
    TensorList values, TensorList scales, const Tensor& newest, const optional<Tensor>& update, const Tensor& query,
    const Tensor& gain, double epsilon, at::ScalarType dtype, const optional<Tensor>& ahead_mixed,
    const optional<Tensor>& ahead_peak, const optional<Tensor>& ahead_total) {
  const SiteResults found = run_site(
      values, scales, newest, update, query, gain, epsilon, dtype, ahead_mixed, ahead_peak, ahead_total, true);
  return {found.value, found.scale, found.output, found.kept, found.rho, found.logits, found.log_total};
}

// The same for inference, where a token at a time every allocation tells: (value, scale, output).
std::tuple<Tensor, Tensor, Tensor> site_forward(
    TensorList values, TensorList scales, const Tensor& newest, const optional<Tensor>& update, const Tensor& query,
    const Tensor& gain, double epsilon, at::ScalarType dtype, const optional<Tensor>& ahead_mixed,
    const optional<Tensor>& ahead_peak, const optional<Tensor>& ahead_total) {
  const SiteResults found = run_site(
      values, scales, newest, update, query, gain, epsilon, dtype, ahead_mixed, ahead_peak, ahead_total, false);
  return {found.value, found.scale, found.output};
}

// Phase one for G queries: (Σ exp(logit - peak) v [G, M, d], peak [G, M], total [G, M], logits [G, M, n]).
std::tuple<Tensor, Tensor, Tensor, Tensor> look_ahead(TensorList values, TensorList scales, const Tensor& queries) {
  const int64_t n = static_cast<int64_t>(values.size()), group = queries.size(0), d = queries.size(1);
  TORCH_CHECK(n > 0, "looking ahead needs a finished source");
  const int64_t tokens = values[0].numel() / d;
  const auto wide = queries.options();
  Tensor mixed = empty({group, tokens, d}, wide), peak = empty({group, tokens}, wide);
  Tensor total = empty({group, tokens}, wide), logits = empty({group, tokens, n}, wide);
  AT_DISPATCH_FLOATING_TYPES(queries.scalar_type(), "attnres::look_ahead", [&] {
    using A = scalar_t;
    const auto sources = matrices(values);
    const auto known = pointers<A>(scales);
    const A* q = queries.const_data_ptr<A>();
    A *mixtures = mixed.data_ptr<A>(), *peaks = peak.data_ptr<A>(), *totals = total.data_ptr<A>(),
      *found = logits.data_ptr<A>();
    at::parallel_for(0, chunks_of(tokens), 1, [&](int64_t first, int64_t last) {
      std::vector<A> widened(n * d), weight(group * n);
      std::vector<const A*> rows(n), asked(group);
      std::vector<A*> sums(group);
      for (int64_t which = 0; which < group; ++which) {
        asked[which] = q + which * d;
      }
      for (int64_t t = first * kChunk; t < std::min(last * kChunk, tokens); ++t) {
        for (int64_t i = 0; i < n; ++i) {
          rows[i] = sources[i].template row<A>(t, d, &widened[i * d]);
        }
        products(rows.data(), n, asked.data(), group, d, weight.data());
        for (int64_t which = 0; which < group; ++which) {
          A* own = &weight[which * n];
          A highest = -std::numeric_limits<A>::infinity(), sum = 0;
          for (int64_t i = 0; i < n; ++i) {
            own[i] *= known[i][t];
            highest = std::max(highest, own[i]);
          }
          std::copy(own, own + n, found + (which * tokens + t) * n);
          exponentials(own, n, highest);
          for (int64_t i = 0; i < n; ++i) {
            sum += own[i];
          }
          peaks[which * tokens + t] = highest;
          totals[which * tokens + t] = sum;
          sums[which] = mixtures + (which * tokens + t) * d;
          std::fill(sums[which], sums[which] + d, A(0));
        }
        add_weighted(rows.data(), weight.data(), n, group, d, sums.data());
      }
    });
  });
  return {mixed, peak, total, logits};
}

// From this many consumers on, Σ a scale q is left to the library's matrix product, as queries' gradients always are:
// it is the faster one, but may cut its sums by the number of threads, and another number then gives another rounding.
constexpr int64_t kManyQueries = 8;

// (gradients of S sources [S, M, d], gradients of their n consumers' queries [n, d]); formulas in residual/operator.py.
// All sources have the same consumers, whose rows are read once for all of them. logits and columns: S × n, source by
// source. carry is added to the first source's gradient.
std::tuple<Tensor, Tensor> source_backward(
    TensorList values, TensorList scales, TensorList grads, TensorList dots, TensorList queries, TensorList log_totals,
    TensorList logits, at::IntArrayRef columns, const optional<Tensor>& carry) {
  const int64_t group = static_cast<int64_t>(values.size()), n = static_cast<int64_t>(grads.size());
  const int64_t tokens = values[0].size(0), d = values[0].size(1);
  const auto wide = scales[0].options();
  Tensor dvalues = empty({group, tokens, d}, wide), coefficients = empty({group, tokens, n}, wide);
  const bool by_matrix_product = n >= kManyQueries;
  AT_DISPATCH_FLOATING_TYPES(scales[0].scalar_type(), "attnres::source_backward", [&] {
    using A = scalar_t;
    const auto sources = matrices(values);
    const Matrix carried = carry.has_value() ? Matrix(*carry) : Matrix();
    const auto dh = pointers<A>(grads), s = pointers<A>(dots), q = pointers<A>(queries), lse = pointers<A>(log_totals),
               logit = pointers<A>(logits), r = pointers<A>(scales);
    std::vector<int64_t> stride(group * n);
    for (int64_t j = 0; j < group * n; ++j) {
      stride[j] = logits[j].size(1);
    }
    A *dv = dvalues.data_ptr<A>(), *c = coefficients.data_ptr<A>();
    at::parallel_for(0, chunks_of(tokens), 1, [&](int64_t first, int64_t last) {
      std::vector<A> widened((group + 1) * d), product(group * n), alpha(group * n), l(n);
      std::vector<const A*> rows(n), own(group);
      std::vector<A*> out(group);
      for (int64_t t = first * kChunk; t < std::min(last * kChunk, tokens); ++t) {
        for (int64_t j = 0; j < n; ++j) {
          rows[j] = dh[j] + t * d;
        }
        for (int64_t which = 0; which < group; ++which) {
          own[which] = sources[which].template row<A>(t, d, &widened[which * d]);
        }
        products(rows.data(), n, own.data(), group, d, product.data());
        for (int64_t which = 0; which < group; ++which) {
          const A scale = r[which][t];
          A *share = &alpha[which * n], *coefficient = c + (which * tokens + t) * n;
          for (int64_t j = 0; j < n; ++j) {
            const int64_t entry = which * n + j;
            l[j] = logit[entry][t * stride[entry] + columns[entry]];
            share[j] = l[j] - lse[j][t];
          }
          exponentials(share, n, A(0));
          A through_scale = 0;
          for (int64_t j = 0; j < n; ++j) {
            const A a = share[j] * (product[which * n + j] - s[j][t]);
            through_scale += a * l[j];
            coefficient[j] = a * scale;
          }
          const bool carries = which == 0 && carry.has_value();
          const A* more = carries ? carried.row<A>(t, d, &widened[group * d]) : nullptr;
          out[which] = dv + (which * tokens + t) * d;
          start_from(own[which], -through_scale * scale * scale / A(d), more, d, out[which]);
          if (!by_matrix_product) {
            add_weighted(q.data(), coefficient, n, 1, d, &out[which]);
          }
        }
        add_weighted(rows.data(), alpha.data(), n, group, d, out.data());
      }
    });
  });
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  if (by_matrix_product) {
    dvalues.view({group * tokens, d}).addmm_(coefficients.view({group * tokens, n}), attnres::stack(queries));
  }
  Tensor dqueries = coefficients[0].t().mm(values[0].to(wide.dtype()));
  for (int64_t which = 1; which < group; ++which) {
    dqueries.addmm_(coefficients[which].t(), values[which].to(wide.dtype()));
  }
  return {dvalues, dqueries};
}

}  // namespace attnres
