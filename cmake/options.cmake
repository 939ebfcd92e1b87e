# Language, warnings and the switches that presets set.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

option(GRADMILL_TESTS "Build the tests" ON)
option(GRADMILL_CUDA "Find GPUs through the CUDA toolkit" OFF)
set(GRADMILL_SANITIZE "" CACHE STRING "Sanitizers, as -fsanitize= takes them")

# Our own targets link this; dependencies are system headers and keep their warnings to themselves.
add_library(gradmill_options INTERFACE)
target_compile_options(gradmill_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Werror)
# Designated initialisers leave optional tensors out on purpose.
target_compile_options(gradmill_options INTERFACE -Wno-missing-field-initializers)
# GCC 12 sees overlaps in std::string's operator+ that are not there (its bug 105651).
target_compile_options(gradmill_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
# Results must be the same in every build: no contraction the source does not ask for.
target_compile_options(gradmill_options INTERFACE -ffp-contract=off)
# AVX2 is the floor on x86 (every such CPU since 2015); Highway picks AVX-512 at run time.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_options(gradmill_options INTERFACE -march=x86-64-v3 -maes -mpclmul)
endif()
if(GRADMILL_SANITIZE)
  target_compile_options(gradmill_options INTERFACE -fsanitize=${GRADMILL_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(gradmill_options INTERFACE -fsanitize=${GRADMILL_SANITIZE})
endif()

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()
