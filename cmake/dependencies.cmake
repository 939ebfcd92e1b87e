# Everything comes from the distribution's packages; `make setup` installs them.
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(fmt REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)

# Debian's oneDNN configuration asks for OpenCL, which we do not use, its Highway has none, and yaml-cpp names its target
# differently from version to version: find them by hand.
function(gradmill_find_library target header library)
  find_path(${target}_INCLUDE_DIR ${header} REQUIRED)
  find_library(${target}_LIBRARY ${library} REQUIRED)
  add_library(${target} INTERFACE)
  target_include_directories(${target} SYSTEM INTERFACE ${${target}_INCLUDE_DIR})
  target_link_libraries(${target} INTERFACE ${${target}_LIBRARY})
endfunction()
gradmill_find_library(gradmill_dnnl oneapi/dnnl/dnnl.h dnnl)
gradmill_find_library(gradmill_hwy hwy/highway.h hwy)
gradmill_find_library(gradmill_yaml yaml-cpp/yaml.h yaml-cpp)
# Targets between AVX2 and AVX-512 would be compile time for nothing.
target_compile_definitions(gradmill_hwy INTERFACE "HWY_DISABLED_TARGETS=(HWY_AVX3_DL)")
