# Everything comes from the distribution's packages; `make setup` installs them.
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(fmt REQUIRED)
find_package(dnnl REQUIRED)
find_package(CLI11 REQUIRED)

# Debian's Highway has a pkg-config file only.
find_path(HWY_INCLUDE_DIR hwy/highway.h REQUIRED)
find_library(HWY_LIBRARY hwy REQUIRED)
add_library(gradmill_hwy INTERFACE)
target_include_directories(gradmill_hwy SYSTEM INTERFACE ${HWY_INCLUDE_DIR})
target_link_libraries(gradmill_hwy INTERFACE ${HWY_LIBRARY})
# AVX-512 and AVX2 cover today's machines, SSE2 the rest; every further target is compile time.
target_compile_definitions(gradmill_hwy INTERFACE "HWY_DISABLED_TARGETS=(HWY_SSSE3|HWY_SSE4|HWY_AVX3_DL)")
