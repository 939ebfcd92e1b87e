// SPDX-License-Identifier: Apache-2.0
// Deferred gradients are those that the products give at once. On a CPU nothing is deferred.
#include "nn/deferred_gradients.h"

#include <cstring>

#include "support/op_test.h"

namespace gradmill::test {
namespace {

constexpr int64_t kTokens = 50, kOut = 16, kIn = 24;

class DeferredGradientsTest : public OpTest {
 protected:
  DeferredGradientsTest() { ctx_.kernels.tf32 = false; }

  TensorView saved(const Shape& shape, uint32_t seed) {
    const TensorView view = ctx_.alloc(ctx_.saved, shape, dtype(), "saved");
    const std::vector<float> values = random_values(shape.numel(), seed, 1, dtype());
    const TensorView from = upload(values, shape, dtype());
    std::memcpy(view.data, from.data, view.bytes());
    return view;
  }
  Product product(uint32_t seed, const TensorView& grad, float beta) {
    return {.a = saved({kTokens, grad.rows()}, seed),
            .b = saved({kTokens, grad.cols()}, seed + 1),
            .c = grad,
            .transpose_a = true,
            .beta = beta};
  }
  std::vector<float> at_once(const std::vector<Product>& products, const TensorView& grads) {
    for (const Product& product : products) run_product(ctx_, product);
    return download(grads);
  }
  std::vector<float> deferred(const std::vector<Product>& products, const TensorView& grads) {
    DeferredGradients queue;
    for (const Product& product : products) queue.add(ctx_, product);
    queue.run(ctx_);
    return download(grads);
  }
};

// Four blocks from the last to the first, two weights each; the third block has something between its tensors.
TEST_P(DeferredGradientsTest, AreTheProducts) {
  for (float beta : {0.0f, 1.0f}) {
    ctx_.saved.release({});
    const int64_t size = kOut * kIn;
    const std::vector<float> old = random_values(8 * size, 77);
    const TensorView grads = upload(old, {8 * size}, DType::fp32), again = upload(old, {8 * size}, DType::fp32);
    std::vector<Product> products, others;
    for (int64_t block = 0; block < 4; ++block) {
      if (block == 2) saved({3, 8}, 5);
      for (int64_t weight = 0; weight < 2; ++weight) {
        const Shape shape = weight == 0 ? Shape{kOut, kIn} : Shape{kIn, kOut};
        const int64_t at = (2 * block + weight) * size;
        const TensorView c(grads.ptr<float>() + at, DType::fp32, shape);
        products.insert(products.begin(), product(static_cast<uint32_t>(at), c, beta));
        others.insert(others.begin(), products.front());
        others.front().c = TensorView(again.ptr<float>() + at, DType::fp32, shape);
      }
    }
    expect_reduction(deferred(products, grads), at_once(others, again), DType::fp32, kTokens, 1, "gradients");
  }
}

// A weight of two layers: the second product adds to the first.
TEST_P(DeferredGradientsTest, KeepTheOrderOfOneResult) {
  const TensorView grad = tensor({kOut, kIn}, DType::fp32), again = tensor({kOut, kIn}, DType::fp32);
  std::vector<Product> products = {product(1, grad, 0), product(5, grad, 1)};
  const std::vector<float> result = deferred(products, grad);
  for (Product& product : products) product.c = again;
  expect_reduction(result, at_once(products, again), DType::fp32, 2 * kTokens, 1, "gradient");
}

// Before an operand is overwritten, even a part of it, the products that read it are run. The results of the others do
// not change either.
TEST_P(DeferredGradientsTest, SettleBeforeAnOperandIsOverwritten) {
  const int64_t size = kOut * kIn;
  for (bool whole : {true, false}) {
    ctx_.saved.release({});
    const TensorView grads = tensor({6 * size}, DType::fp32), again = tensor({6 * size}, DType::fp32);
    std::vector<Product> products, others;
    for (int64_t block = 2; block >= 0; --block) {
      for (int64_t weight = 0; weight < 2; ++weight) {
        const Shape shape = weight == 0 ? Shape{kOut, kIn} : Shape{kIn, kOut};
        const int64_t at = (2 * block + weight) * size;
        products.push_back(product(uint32_t(at), TensorView(grads.ptr<float>() + at, DType::fp32, shape), 0));
        others.push_back(products.back());
        others.back().c = TensorView(again.ptr<float>() + at, DType::fp32, shape);
      }
    }
    const std::vector<float> expected = at_once(others, again);
    DeferredGradients queue;
    for (const Product& product : products) queue.add(ctx_, product);
    const TensorView operand = products[2].b.plain,
                     changed = whole ? operand : operand.slice_rows(kTokens / 2, kTokens);
    queue.settle(ctx_, changed);
    download(grads);  // everything that was started is done
    std::memset(changed.data, 0xff, changed.bytes());
    queue.run(ctx_);
    expect_reduction(download(grads), expected, DType::fp32, kTokens, 1, "gradients");
  }
}

INSTANTIATE_TEST_SUITE_P(Layers, DeferredGradientsTest, testing::ValuesIn(all_cases()), case_name);

}  // namespace
}  // namespace gradmill::test
