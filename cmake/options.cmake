# Language, warnings and the switches that presets set.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

option(GRADMILL_TESTS "Build the tests" ON)
option(GRADMILL_BENCH "Build the benchmarks" OFF)
option(GRADMILL_CUDA "Build the CUDA device" OFF)
set(GRADMILL_SANITIZE "" CACHE STRING "Sanitizers, as -fsanitize= takes them")

# Our own targets link this; dependencies are system headers and keep their warnings to themselves.
add_library(gradmill_options INTERFACE)
target_compile_options(gradmill_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Werror)
# GCC 12 sees overlaps in std::string's operator+ that are not there (its bug 105651).
target_compile_options(gradmill_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
# Results must be the same in every build: no contraction the source does not ask for.
target_compile_options(gradmill_options INTERFACE -ffp-contract=off)
if(GRADMILL_SANITIZE)
  target_compile_options(gradmill_options INTERFACE -fsanitize=${GRADMILL_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(gradmill_options INTERFACE -fsanitize=${GRADMILL_SANITIZE})
endif()
if(GRADMILL_CUDA)
  target_compile_definitions(gradmill_options INTERFACE GRADMILL_WITH_CUDA)
endif()

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()
