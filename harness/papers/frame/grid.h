// Numbers by their place on named axes.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace subquad {

// Grid errors({{"draw", 600}, {"map", 4}}); errors(draw, map) = 1; zero at
// first. Throws std::logic_error that names the axis of a wrong index.
class Grid {
 public:
  struct Axis {
    std::string name;
    size_t size;
  };

  Grid() = default;
  explicit Grid(std::vector<Axis> axes) : axes_(std::move(axes)) {
    size_t count = 1;
    for (const Axis& axis : axes_) count *= axis.size;
    values_.resize(count);
  }

  template <typename... Index>
  double& operator()(Index... index) {
    return values_[Place({static_cast<size_t>(index)...})];
  }
  template <typename... Index>
  double operator()(Index... index) const {
    return values_[Place({static_cast<size_t>(index)...})];
  }
  size_t Size(size_t axis) const { return axes_.at(axis).size; }

 private:
  size_t Place(std::initializer_list<size_t> index) const {
    if (index.size() != axes_.size())
      throw std::logic_error("a grid with another number of axes");
    size_t place = 0, axis = 0;
    for (size_t i : index) {
      if (i >= axes_[axis].size)
        throw std::logic_error("grid: " + axes_[axis].name + " out of range");
      place = place * axes_[axis++].size + i;
    }
    return place;
  }

  std::vector<Axis> axes_;
  std::vector<double> values_;
};

}  // namespace subquad
