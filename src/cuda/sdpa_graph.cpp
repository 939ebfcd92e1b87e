// SPDX-License-Identifier: Apache-2.0
// The only file that includes cudnn-frontend. It takes 20 seconds to compile, so it contains nothing else.
#include "cuda/sdpa_graph.h"

#include <cudnn_frontend.h>

#include "core/error.h"

namespace gradmill::cuda {
namespace {

namespace fe = cudnn_frontend;
using fe::graph::Tensor_attributes;
using Tensor = std::shared_ptr<Tensor_attributes>;
using PointerMap = std::unordered_map<int64_t, void*>;

// Numbers of the tensors in a graph. The offsets of a ragged tensor have its number plus kOffsets.
enum TensorId : int64_t { kQ = 1, kK, kV, kOut, kLse, kDOut, kDQ, kDK, kDV, kQueryLens, kKeyLens, kOffsets = 100 };

fe::DataType_t type_of(DType dtype) { return dtype == DType::bf16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF; }

// Adds the tensors of a problem to a graph.
class Builder {
 public:
  Builder(fe::graph::Graph& graph, const SdpaProblem& problem) : graph_(graph), p_(problem) {
    graph.set_io_data_type(type_of(problem.dtype))
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
  }

  void forward() {
    fe::graph::SDPA_attributes options;
    // The other implementation is newer and has no masks. Using one engine for all masks keeps forward and backward
    // consistent.
    options.set_generate_stats(true).set_implementation(fe::AttentionImplementation_t::COMPOSITE);
    set_common(options);
    auto [out, lse] = graph_.sdpa(input(kQ, p_.heads, p_.q_stride), input(kK, p_.kv_heads, p_.k_stride),
                                  input(kV, p_.kv_heads, p_.v_stride), options);
    shape(*out, kOut, p_.heads, p_.out_stride).set_output(true);
    shape_lse(*lse).set_output(true);
  }

  void backward() {
    fe::graph::SDPA_backward_attributes options;
    options.set_deterministic_algorithm(p_.deterministic);
    set_common(options);
    // Without these limits, ragged problems would get accumulators for B full sequences.
    if (p_.ragged) options.set_max_total_seq_len_q(p_.rows).set_max_total_seq_len_kv(p_.rows);
    Tensor_attributes lse;
    auto [dq, dk, dv] =
        graph_.sdpa_backward(input(kQ, p_.heads, p_.q_stride), input(kK, p_.kv_heads, p_.k_stride),
                             input(kV, p_.kv_heads, p_.v_stride), input(kOut, p_.heads, p_.out_stride),
                             input(kDOut, p_.heads, p_.dout_stride), graph_.tensor(shape_lse(lse)), options);
    shape(*dq, kDQ, p_.heads, p_.dq_stride).set_output(true);
    shape(*dk, kDK, p_.kv_heads, p_.dk_stride).set_output(true);
    shape(*dv, kDV, p_.kv_heads, p_.dv_stride).set_output(true);
  }

 private:
  // Keys from q - (left bound - 1) on are visible: cuDNN's bound counts the query's own key. See sliding_window_mask()
  // in cudnn-frontend's utils/attn_score_modifiers.h.
  template <class Options>
  void set_common(Options& options) {
    options.set_attn_scale(p_.scale).set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT);
    if (p_.left >= 0) options.set_diagonal_band_left_bound(static_cast<int>(std::min(p_.left, p_.len) + 1));
    if (p_.right >= 0) options.set_diagonal_band_right_bound(static_cast<int>(std::min(p_.right, p_.len)));
    if (p_.ragged) options.set_padding_mask(true).set_seq_len_q(lens(kQueryLens)).set_seq_len_kv(lens(kKeyLens));
  }

  static Tensor_attributes column(int64_t id, int64_t size, fe::DataType_t type) {
    return Tensor_attributes().set_uid(id).set_data_type(type).set_dim({size, 1, 1, 1}).set_stride({1, 1, 1, 1});
  }

  Tensor lens(TensorId id) { return graph_.tensor(column(id, p_.seqs, fe::DataType_t::INT32)); }

  void set_offsets(Tensor_attributes& tensor, TensorId id) {
    if (!p_.ragged) return;
    tensor.set_ragged_offset(graph_.tensor(column(kOffsets + id, p_.seqs + 1, fe::DataType_t::INT64)));
  }

  Tensor_attributes& shape(Tensor_attributes& tensor, TensorId id, int64_t heads, int64_t stride) {
    tensor.set_uid(id)
        .set_data_type(type_of(p_.dtype))
        .set_dim({p_.seqs, heads, p_.len, p_.head_dim})
        .set_stride({p_.len * stride, p_.head_dim, stride, 1});
    set_offsets(tensor, id);
    return tensor;
  }
  Tensor input(TensorId id, int64_t heads, int64_t stride) {
    Tensor_attributes tensor;
    return graph_.tensor(shape(tensor, id, heads, stride));
  }

  Tensor_attributes& shape_lse(Tensor_attributes& tensor) {
    const int64_t sequence = p_.heads * p_.len;
    tensor.set_uid(kLse).set_data_type(fe::DataType_t::FLOAT).set_dim({p_.seqs, p_.heads, p_.len, 1});
    if (p_.ragged) tensor.set_stride({sequence, 1, p_.heads, 1});
    if (!p_.ragged) tensor.set_stride({sequence, p_.len, 1, 1});
    set_offsets(tensor, kLse);
    return tensor;
  }

  fe::graph::Graph& graph_;
  const SdpaProblem& p_;
};

// The first line of the message, which is the useful part, without the underscores that stand for unnamed operations.
std::string brief(const std::string& message) {
  constexpr size_t kLongest = 200;
  const std::string line = message.substr(0, std::min(message.find('\n'), kLongest));
  return line.substr(0, line.find_last_not_of("_ ") + 1);
}

PointerMap pointers(const SdpaBuffers& b, bool ragged, bool backward) {
  PointerMap map = {{kQ, b.q}, {kK, b.k}, {kV, b.v}, {kOut, b.out}, {kLse, b.lse}};
  if (backward) map.insert({{kDOut, b.dout}, {kDQ, b.dq}, {kDK, b.dk}, {kDV, b.dv}});
  if (!ragged) return map;
  map.insert({{kQueryLens, b.lens},
              {kKeyLens, b.lens},
              {kOffsets + kQ, b.offsets.q},
              {kOffsets + kK, b.offsets.k},
              {kOffsets + kV, b.offsets.v},
              {kOffsets + kOut, b.offsets.out},
              {kOffsets + kLse, b.offsets.lse}});
  if (backward) {
    map.insert({{kOffsets + kDOut, b.offsets.dout},
                {kOffsets + kDQ, b.offsets.dq},
                {kOffsets + kDK, b.offsets.dk},
                {kOffsets + kDV, b.offsets.dv}});
  }
  return map;
}

}  // namespace

struct SdpaGraph::Impl {
  fe::graph::Graph graph;
  bool ragged = false, backward = false;
};

SdpaGraph::SdpaGraph(cudnnContext* handle, const SdpaProblem& problem, bool backward)
    : impl_(std::make_unique<Impl>()) {
  impl_->ragged = problem.ragged;
  impl_->backward = backward;
  try {
    Builder builder(impl_->graph, problem);
    backward ? builder.backward() : builder.forward();
    fe::error_t status = impl_->graph.build(handle, {fe::HeurMode_t::A});
    int64_t bytes = 0;
    if (status.is_good()) status = impl_->graph.get_workspace_size(bytes);
    if (status.is_bad()) refusal_ = brief("cuDNN: " + status.get_message());
    workspace_bytes_ = static_cast<size_t>(bytes);
  } catch (const std::exception& problem_found) {
    refusal_ = brief(std::string("cuDNN: ") + problem_found.what());
  }
}

SdpaGraph::~SdpaGraph() = default;

void SdpaGraph::run(cudnnContext* handle, const SdpaBuffers& buffers) const {
  PointerMap map = pointers(buffers, impl_->ragged, impl_->backward);
  fe::error_t status = impl_->graph.execute(handle, map, buffers.workspace);
  if (status.is_bad()) {
    throw Error(ExitCode::failure, "attention through cuDNN failed: " + status.get_message(),
                "the attention backend 'flash' does without cuDNN");
  }
}

}  // namespace gradmill::cuda
