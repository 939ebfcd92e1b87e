// SPDX-License-Identifier: Apache-2.0
#include "core/tensor_view.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace gradmill {
namespace {

class TensorViewTest : public testing::Test {
 protected:
  TensorViewTest() { std::iota(values_.begin(), values_.end(), 0.0f); }

  std::vector<float> values_ = std::vector<float>(24);
  TensorView view_{values_.data(), DType::fp32, {4, 6}};  // element (r, c) is 6r + c
};

TEST_F(TensorViewTest, Whole) {
  EXPECT_TRUE(view_.defined());
  EXPECT_TRUE(view_.contiguous());
  EXPECT_EQ(view_.rows(), 4);
  EXPECT_EQ(view_.cols(), 6);
  EXPECT_EQ(view_.bytes(), 96u);
  EXPECT_EQ(view_.row<float>(2)[3], 15.0f);
  EXPECT_FALSE(TensorView{}.defined());
}

TEST_F(TensorViewTest, RowsOfAMatrix) {
  const TensorView rows = view_.slice_rows(1, 3);
  EXPECT_EQ(rows.shape, (Shape{2, 6}));
  EXPECT_EQ(rows.row<float>(1)[5], 17.0f);
  EXPECT_TRUE(rows.contiguous());
  EXPECT_EQ(view_.slice_rows(2, 2).numel(), 0);
}

TEST_F(TensorViewTest, ColumnsKeepTheRowStride) {
  const TensorView columns = view_.slice_cols(2, 5);
  EXPECT_EQ(columns.shape, (Shape{4, 3}));
  EXPECT_FALSE(columns.contiguous());
  EXPECT_EQ(columns.row<float>(3)[0], 20.0f);
  const TensorView inner = columns.slice_rows(1, 3).slice_cols(1, 2);
  EXPECT_EQ(inner.row<float>(1)[0], 15.0f);
  EXPECT_EQ(inner.bytes(), 8u);
}

TEST_F(TensorViewTest, PartOfAVector) {
  const TensorView part = view_.reshape({24}).slice_rows(5, 9);
  EXPECT_EQ(part.shape, (Shape{4}));
  EXPECT_TRUE(part.contiguous());
  EXPECT_EQ(part.ptr<float>()[0], 5.0f);
}

TEST_F(TensorViewTest, HigherRanksAreRowsToo) {
  const TensorView cube = view_.reshape({2, 3, 4});
  EXPECT_EQ(cube.rows(), 6);
  EXPECT_EQ(cube.cols(), 4);
  EXPECT_EQ(cube.row<float>(5)[0], 20.0f);
}

TEST(TensorView, SlicesOnPaperStayWithoutMemory) {
  const TensorView view(nullptr, DType::bf16, {8, 8});
  EXPECT_EQ(view.slice_rows(2, 4).data, nullptr);
  EXPECT_EQ(view.slice_cols(2, 4).data, nullptr);
  EXPECT_TRUE(view.slice_cols(2, 4).defined());
  EXPECT_EQ(view.slice_rows(2, 4).bytes(), 32u);
}

TEST(TensorView, OffsetsCountElementsOfTheDtype) {
  std::vector<uint16_t> values(12);
  const TensorView view(values.data(), DType::bf16, {3, 4});
  EXPECT_EQ(view.slice_rows(1, 2).slice_cols(1, 2).data, values.data() + 5);
}

TEST(Shape, Basics) {
  const Shape shape{2, 3, 4};
  EXPECT_EQ(shape.rank(), 3);
  EXPECT_EQ(shape.numel(), 24);
  EXPECT_EQ(shape.str(), "(2, 3, 4)");
  EXPECT_NE(shape, (Shape{2, 3}));
  EXPECT_EQ(Shape{}.numel(), 1);
}

}  // namespace
}  // namespace gradmill
