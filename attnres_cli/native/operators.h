// The operators, as library.cpp registers them; what they give and take, the source of each says.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

namespace attnres {

using at::Tensor;
using at::TensorList;
using std::optional;

// norm.cpp
std::tuple<Tensor, Tensor, Tensor, bool> add_norm(
    const Tensor& stream, const optional<Tensor>& update, const Tensor& gain, double epsilon, at::ScalarType dtype,
    bool backward);
std::tuple<Tensor, Tensor, Tensor> norm_backward(
    const Tensor& grad, const Tensor& kept, bool kept_is_output, const Tensor& rho, const Tensor& gain, double epsilon,
    const optional<Tensor>& carry);

// depth_attention.cpp
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> site(
    TensorList values, TensorList scales, const Tensor& newest, const optional<Tensor>& update, const Tensor& query,
    const Tensor& gain, double epsilon, at::ScalarType dtype, const optional<Tensor>& ahead_mixed,
    const optional<Tensor>& ahead_peak, const optional<Tensor>& ahead_total);
std::tuple<Tensor, Tensor, Tensor> site_forward(
    TensorList values, TensorList scales, const Tensor& newest, const optional<Tensor>& update, const Tensor& query,
    const Tensor& gain, double epsilon, at::ScalarType dtype, const optional<Tensor>& ahead_mixed,
    const optional<Tensor>& ahead_peak, const optional<Tensor>& ahead_total);
std::tuple<Tensor, Tensor, Tensor, Tensor> look_ahead(TensorList values, TensorList scales, const Tensor& queries);
std::tuple<Tensor, Tensor> source_backward(
    TensorList values, TensorList scales, TensorList grads, TensorList dots, TensorList queries, TensorList log_totals,
    TensorList logits, at::IntArrayRef columns, const optional<Tensor>& carry);

// swiglu.cpp
Tensor swiglu(const Tensor& gate_up);
Tensor swiglu_backward(const Tensor& grad, const Tensor& gate_up);

// rotary.cpp
void turn_(Tensor heads, const Tensor& turns, int64_t turned, bool back);

}  // namespace attnres
