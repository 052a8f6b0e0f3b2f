// New tensors, by what `at::empty` and its like are made of: their own headers take longer to read than all others.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like_ops.h>
#include <ATen/ops/empty_ops.h>
#include <ATen/ops/stack_ops.h>
#include <ATen/ops/zeros_ops.h>

#include <optional>

namespace attnres {

inline at::Tensor empty(at::IntArrayRef sizes, const at::TensorOptions& like) {
  return at::_ops::empty_memory_format::call(
      c10::fromIntArrayRefSlow(sizes), c10::optTypeMetaToScalarType(like.dtype_opt()), like.layout_opt(),
      like.device_opt(), like.pinned_memory_opt(), std::nullopt);
}

inline at::Tensor zeros(at::IntArrayRef sizes, const at::TensorOptions& like) {
  return at::_ops::zeros::call(
      c10::fromIntArrayRefSlow(sizes), c10::optTypeMetaToScalarType(like.dtype_opt()), like.layout_opt(),
      like.device_opt(), like.pinned_memory_opt());
}

inline at::Tensor empty_like(const at::Tensor& tensor) {
  return at::_ops::empty_like::call(tensor, std::nullopt, std::nullopt, std::nullopt, std::nullopt, std::nullopt);
}

inline at::Tensor stack(at::TensorList tensors) {
  return at::_ops::stack::call(tensors, 0);
}

}  // namespace attnres
