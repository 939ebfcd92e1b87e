# Everything comes from the distribution's packages; `make setup` installs them.
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(fmt REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(ZLIB REQUIRED)

# Debian's oneDNN configuration asks for OpenCL, which we do not use, its Highway, zstd and utf8proc have none, and
# yaml-cpp and simdjson name their targets differently from version to version: find them by hand.
function(gradmill_find_library target header library)
  find_path(${target}_INCLUDE_DIR ${header} REQUIRED)
  find_library(${target}_LIBRARY ${library} REQUIRED)
  add_library(${target} INTERFACE)
  target_include_directories(${target} SYSTEM INTERFACE ${${target}_INCLUDE_DIR})
  target_link_libraries(${target} INTERFACE ${${target}_LIBRARY})
endfunction()
gradmill_find_library(gradmill_dnnl oneapi/dnnl/dnnl.h dnnl)
gradmill_find_library(gradmill_hwy hwy/highway.h hwy)
gradmill_find_library(gradmill_simdjson simdjson.h simdjson)
gradmill_find_library(gradmill_yaml yaml-cpp/yaml.h yaml-cpp)
gradmill_find_library(gradmill_utf8proc utf8proc.h utf8proc)
gradmill_find_library(gradmill_zstd zstd.h zstd)
# Targets between AVX2 and AVX-512 would be compile time for nothing.
target_compile_definitions(gradmill_hwy INTERFACE "HWY_DISABLED_TARGETS=(HWY_AVX3_DL)")
